"""The fast path of eager tensors: engine.c as a module, or None where it cannot be compiled.

Compiled once per machine and Python, when eager tensors are first used. Everything in it is done by tensor.py and
tape.py too, slower. Previous: call.py; next: layout.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tracegrad.config import load_options
from tracegrad.driver.cache import open_cache
from tracegrad.driver.extension import load_extension


def _load() -> Any:
    options = load_options()
    return load_extension("tracegrad_engine", Path(__file__).parent / "engine.c", open_cache(options), options)


engine: Any = _load()
