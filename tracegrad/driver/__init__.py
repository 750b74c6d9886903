"""From text to a callable: cache, compiler, loaders, and the pipeline that joins all stages."""
