"""An extension module of Python, written in C beside this package, compiled once per machine and Python into the cache.

Reads launcher.c or runtime/engine.c; gives the module to launch.py or runtime/engine.py. Previous: load_c.py; next:
launch.py.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import logging
from pathlib import Path
from typing import Any

from tracegrad.config import Options
from tracegrad.driver.cache import Cache
from tracegrad.driver.key import build_key, python_parts
from tracegrad.driver.load_c import LIBRARY, compile_entry
from tracegrad.driver.toolchain import NoCompilerError, find_toolchain
from tracegrad.errors import CompileError

logger = logging.getLogger("tracegrad.launch")

_FLAGS = ("-O2", "-std=c11", "-fPIC", "-shared", "-fno-strict-aliasing")


def load_extension(name: str, source: Path, cache: Cache, options: Options) -> Any:
    """Return the module `name` that C text defines, or None where it cannot be compiled."""
    try:
        return _compile(name, source, cache, options)
    except NoCompilerError:
        return None
    except (CompileError, ImportError) as error:
        logger.warning("calls are slower, because %s cannot be compiled: %s", source.name, error)
        return None


def _compile(name: str, source: Path, cache: Cache, options: Options) -> Any:
    toolchain = find_toolchain(options, cache)
    if not toolchain.includes:
        logger.info("Python.h or NumPy's headers are missing, so calls are slower")
        return None
    text = source.read_text(encoding="utf-8")
    flags = (*_FLAGS, *(f"-I{path}" for path in toolchain.includes))
    key = build_key(name, text, {"kind": "launcher", **toolchain.parts(flags), **python_parts()})
    entry = cache.lookup(key)
    if entry is not None:
        try:
            return _import(name, entry.file(LIBRARY))
        except ImportError as error:
            cache.quarantine(entry.path, str(error))
    return _import(name, compile_entry(text, key, toolchain, flags, cache, {}).file(LIBRARY))


def _import(name: str, path: Path) -> Any:
    loader = importlib.machinery.ExtensionFileLoader(name, str(path))
    specification = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert specification is not None, "an extension module always has a spec"
    module = importlib.util.module_from_spec(specification)
    loader.exec_module(module)
    return module
