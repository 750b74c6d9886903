"""C source text to a loaded shared object, through the cache.

Reads text from codegen/c_source.py; gives a LoadedLibrary to launch.py. Previous: toolchain.py; next: extension.py.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracegrad.config import Options
from tracegrad.driver.cache import Cache, Entry
from tracegrad.driver.key import Key, build_key
from tracegrad.driver.toolchain import Toolchain, find_toolchain
from tracegrad.errors import CompileError

logger = logging.getLogger("tracegrad.load")

SOURCE, LIBRARY = "source.c", "module.so"


@dataclass(frozen=True, slots=True)
class LoadedLibrary:
    """A shared object in this process; it stays loaded while the process lives.

    Attributes:
        name: of the compiled function, the stem of its symbols.
        entry: its place in the cache.
    """

    name: str
    entry: Entry
    handle: ctypes.CDLL = field(repr=False)

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What was stored beside it."""
        return self.entry.metadata

    def source(self) -> str:
        """Return the C text."""
        return self.entry.file(SOURCE).read_text(encoding="utf-8")

    def address(self, symbol: str) -> int:
        """Return the address of a function, or 0 when there is none of that name."""
        try:
            function = self.handle[symbol]
        except AttributeError:
            return 0
        return ctypes.cast(function, ctypes.c_void_p).value or 0


#: what stands for -O3 in texts of more than so many lines: -O3 takes several times as long as -O2 there and gains
#: nothing; in still longer ones -O2 takes twice as long as -O1, for code that is faster by a twentieth
_LEVELS = ((2000, ("-O1", "-ftree-vectorize")), (1000, ("-O2",)))

_loaded: dict[str, LoadedLibrary] = {}


def kernel_key(name: str, text: str, toolchain: Toolchain, options: Options, **parts: str) -> Key:
    """Return the key of a kernel.

    Args:
        text: the C text; or the IR that it is made from, with `generator=package_fingerprint()` among the parts.
    """
    return build_key(name, text, {"kind": "kernel", **toolchain.parts(toolchain.kernel_flags(options)), **parts})


def load_cached(key: Key, cache: Cache) -> LoadedLibrary | None:
    """Return the library compiled before under this key, by any process, or None."""
    found = _loaded.get(key.digest)
    if found is not None:
        return found
    entry = cache.lookup(key)
    if entry is None:
        return None
    try:
        return _load(entry)
    except OSError as error:
        cache.quarantine(entry.path, str(error))
        return None


def compile_c(
    text: str,
    name: str,
    *,
    cache: Cache,
    options: Options,
    key: Key | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> LoadedLibrary:
    """Compile C text and load it, or load what was compiled before.

    Args:
        name: stem of the symbols.
        key: what to find it by; by default made from the text.
        metadata: JSON values to be found again beside it.

    Raises:
        NoCompilerError: there is no C compiler.
        CompileError: the compiler refused the text.
    """
    toolchain = find_toolchain(options, cache)
    key = key or kernel_key(name, text, toolchain, options)
    found = load_cached(key, cache)
    if found is not None:
        return found
    flags = flags_for_length(toolchain.kernel_flags(options), text.count("\n"))
    entry = compile_entry(text, key, toolchain, flags, cache, metadata or {})
    try:
        return _load(entry)
    except OSError as error:
        raise CompileError(
            "a shared object that was just compiled cannot be loaded",
            code="TG614",
            span=None,
            found=str(error),
            help="check that the cache directory is not mounted noexec, or set TRACEGRAD_CACHE_DIR to another",
        ) from error


def flags_for_length(flags: tuple[str, ...], lines: int) -> tuple[str, ...]:
    """Return the flags for a text of so many lines."""
    for least, level in _LEVELS:
        if lines > least:
            return tuple(part for flag in flags for part in (level if flag == "-O3" else (flag,)))
    return flags


def compile_entry(
    text: str, key: Key, toolchain: Toolchain, flags: tuple[str, ...], cache: Cache, metadata: Mapping[str, Any]
) -> Entry:
    """Compile C text into a new entry of the cache."""

    def fill(directory: Path) -> None:
        source = directory / SOURCE
        source.write_text(text, encoding="utf-8", newline="")
        toolchain.compile(source, directory / LIBRARY, flags)

    try:
        return cache.store(key, fill, metadata)
    except OSError as error:
        raise CompileError(
            "compiled code cannot be written anywhere",
            code="TG615",
            span=None,
            found=str(error),
            help="make room in the temporary directory, or set TRACEGRAD_CACHE_DIR to a directory with room",
        ) from error


def _load(entry: Entry) -> LoadedLibrary:
    library = LoadedLibrary(entry.name, entry, ctypes.CDLL(str(entry.file(LIBRARY))))
    logger.debug("loaded %s from %s", entry.name, entry.path)
    return _loaded.setdefault(entry.digest, library)
