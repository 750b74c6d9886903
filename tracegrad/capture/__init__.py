"""Python function to IR: source conversion (source, scopes, convert) plus tracing (context, tracer, loops, hooks)."""
