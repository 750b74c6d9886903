"""Python source text to a function, so that tracebacks and pdb show its lines.

Reads text from codegen/numpy_source.py; gives a function to pipeline.py. Previous: load_c.py; next: derive.py.
"""

from __future__ import annotations

import itertools
import linecache
import weakref
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from tracegrad.errors import CompileError

_counter = itertools.count(1)


def load_python(
    source: str, name: str, filename: str = "", *, namespace: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """Execute a module given as text and return the function `name` that it defines.

    Args:
        filename: shown in tracebacks; made unique. By default the function's name.
        namespace: global names that the text may use.

    Raises:
        CompileError: blocks or brackets of the text nest deeper than Python allows.

    >>> load_python("def twice(x):\\n    return 2 * x\\n", "twice")(4)
    8
    """
    label = filename or name
    unique = f"<tracegrad {label} #{next(_counter)}>"
    try:
        code = compile(source, unique, "exec", dont_inherit=True)
    except (SyntaxError, RecursionError, MemoryError) as error:
        found = getattr(error, "msg", str(error)) or type(error).__name__
        if isinstance(error, SyntaxError) and not found.startswith("too many"):
            raise
        raise CompileError(
            "Python cannot compile the generated NumPy code",
            code="TG621",
            span=None,
            found=f"{found} in {name}",
            help='use backend="c" for this function, or write branches and loops that nest less',
        ) from None
    # No modification time: linecache.checkcache leaves the entry alone.
    linecache.cache[unique] = (len(source), None, source.splitlines(keepends=True), unique)
    variables: dict[str, Any] = {"__name__": f"tracegrad.generated.{name}", "__file__": unique, **(namespace or {})}
    exec(code, variables)
    function = variables[name]
    assert isinstance(function, FunctionType), f"the generated text defines no function {name}"
    weakref.finalize(function, linecache.cache.pop, unique, None).atexit = False
    return function
