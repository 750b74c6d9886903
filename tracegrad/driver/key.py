"""Key of a compile cache entry: a digest of everything that the compiled code depends on.

Reads the text of a program and named parts (compiler, flags, versions); gives a Key to cache.py.
Previous: codegen/c_source.py; next: cache.py.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import numpy as np

from tracegrad.config import VERSION

_SPAN_COMMENT = re.compile(r"[ \t]+// [^\n\"']*:\d+:\d+[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Key:
    """What one cache entry was made from.

    Attributes:
        name: name of the compiled function; not part of the digest unless it is in the text.
        text: the program.
        parts: everything else, by name.
        digest: sha256 of text and parts, in hexadecimal.
    """

    name: str
    text: str
    parts: Mapping[str, str]
    digest: str


def build_key(name: str, text: str, parts: Mapping[str, str]) -> Key:
    """Make the key of a program text and of named parts; the version of tracegrad is added.

    >>> build_key("f", "return 1", {"flags": "-O3"}).digest == build_key("g", "return 1", {"flags": "-O3"}).digest
    True
    """
    every = {"tracegrad": VERSION, **parts}
    digest = hashlib.sha256()
    for part, value in [("text", text), *sorted(every.items())]:
        for piece in (part, value):
            data = piece.encode()
            digest.update(b"%d:" % len(data))  # lengths: no two different lists give one stream of bytes
            digest.update(data)
    return Key(name, text, every, digest.hexdigest())


def normalize_ir(text: str) -> str:
    """Drop source positions and blank space at line ends from IR text, so that an edited comment changes no key.

    >>> normalize_ir("%z: f64[] = exp %x  // model.py:12:9")
    '%z: f64[] = exp %x'
    """
    lines = (line.rstrip() for line in _SPAN_COMMENT.sub("", text).splitlines())
    return "\n".join(line for line in lines if line)


def python_parts() -> dict[str, str]:
    """Return the parts of a key for code that uses the C API of Python and NumPy."""
    return {"python": f"{sys.version.split()[0]} {EXTENSION_SUFFIXES[0]}", "numpy": np.__version__}


@cache
def package_fingerprint() -> str:
    """Return a digest of the installed files of tracegrad: part of a key whose text is made before code generation.

    Uses path, size and modification time, so that it costs little at each start.
    """
    root = Path(__file__).parent.parent
    digest = hashlib.sha256()
    pending = [str(root)]
    while pending:
        with os.scandir(pending.pop()) as found:
            for item in sorted(found, key=lambda i: i.name):
                if item.is_dir(follow_symlinks=False):
                    if item.name != "__pycache__":
                        pending.append(item.path)
                elif item.name.endswith((".py", ".c", ".h")):
                    status = item.stat()
                    digest.update(f"{item.path[len(str(root)) :]} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


@cache
def cpu_features() -> str:
    """Return a text that differs where `-march=native` would give other code."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            lines: dict[str, str] = {}
            for line in file:
                name, _, value = line.partition(":")
                if not line.strip():
                    break  # the first processor says it all; the file is long on large machines
                lines[name.strip()] = value.strip()
        model = " ".join(lines.get(k, "") for k in ("vendor_id", "cpu family", "model", "stepping", "model name"))
        flags = lines.get("flags", lines.get("Features", ""))
        return f"{os.uname().machine} {model} {hashlib.sha256(flags.encode()).hexdigest()[:16]}"
    except OSError:
        return f"{sys.platform} {np.dtype(np.intp).itemsize * 8} bits"
