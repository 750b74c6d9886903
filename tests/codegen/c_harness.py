"""Compiles C text with gcc and calls it through ctypes: for tests and measurements of the C code generator."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tracegrad.codegen.c_library import FLAGS
from tracegrad.codegen.c_source import ERROR_KINDS, emit_c
from tracegrad.ir.core import Function
from tracegrad.ir.types import dim_evaluate

FAST = FLAGS
WARNINGS = ("-std=c99", "-Wall", "-Wextra", "-Werror")
CHECKED = ("-O1", "-g", "-fno-math-errno", "-fsanitize=undefined", "-fno-sanitize-recover=undefined")


class _Error(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_int), ("line", ctypes.c_int), ("column", ctypes.c_int), ("file", ctypes.c_char_p),
        ("message", ctypes.c_char_p), ("values", ctypes.c_int64 * 2),
    )  # fmt: skip


class KernelFault(Exception):
    """What a kernel reported: kind, line and message."""

    def __init__(self, kind: str, line: int, message: str) -> None:
        self.kind, self.line, self.message = kind, line, message
        super().__init__(f"{kind} at line {line}: {message}")


def compile_text(text: str, flags: Sequence[str] = FAST, compiler: str = "gcc") -> ctypes.CDLL:
    """Compile C text to a shared object and load it; the text stands in the error when it does not compile."""
    folder = Path(tempfile.mkdtemp(prefix="tracegrad-test-"))
    source, target = folder / "kernel.c", folder / "kernel.so"
    source.write_text(text)
    command = [compiler, *WARNINGS, *flags, "-shared", "-fPIC", str(source), "-o", str(target), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stderr}\n{numbered(text)}"
    return ctypes.CDLL(str(target))


def numbered(text: str) -> str:
    return "\n".join(f"{k:4} {line}" for k, line in enumerate(text.splitlines(), 1))


class Kernel:
    """A function of the IR compiled through C; called with arrays, returns the list of its results."""

    def __init__(
        self, function: Function, flags: Sequence[str] = FAST, compiler: str = "gcc", threads: int = 1
    ) -> None:
        self.memory: Any = None
        self.function, self.source = function, emit_c(function, threads=threads)
        self.library = compile_text(self.source.text, flags, compiler)
        self.entry = getattr(self.library, self.source.entry)
        self.size_bytes = getattr(self.library, f"{self.source.name}_workspace")
        self.size_bytes.restype = ctypes.c_int64
        self.memory: Any = None

    def __call__(self, *arrays: Any, sizes: Mapping[str, int] | None = None) -> list[np.ndarray[Any, Any]]:
        run, results = self.bind(*arrays, sizes=sizes)
        run()
        return results

    def bind(self, *arrays: Any, sizes: Mapping[str, int] | None = None) -> tuple[Any, list[np.ndarray[Any, Any]]]:
        """Return a function without arguments that runs the kernel, and the arrays it fills."""
        known = dict(sizes or {})
        inputs = [
            np.ascontiguousarray(a, p.dtype).reshape(np.shape(a))
            for a, p in zip(arrays, self.function.params, strict=True)
        ]
        for param, array in zip(self.function.params, inputs, strict=True):
            for dim, size in zip(param.shape, array.shape, strict=True):
                if str(dim).isidentifier():
                    known.setdefault(str(dim), size)
        results = [np.full([dim_evaluate(d, known) for d in r.shape], 77, r.dtype) for r in self.function.results]
        ordered = [known[s] for s in self.source.sizes]
        size_bytes = self.size_bytes(*(ctypes.c_int64(s) for s in ordered))
        if self.memory is None or len(self.memory) < size_bytes + 64:
            self.release()
            self.memory = np.zeros(size_bytes + 64, np.uint8)
        workspace = (self.memory.ctypes.data + 63) & ~63
        pointers = (ctypes.c_void_p * (len(inputs) + len(results)))(*(a.ctypes.data for a in [*inputs, *results]))
        size_array = (ctypes.c_int64 * max(1, len(ordered)))(*ordered)
        error = _Error()
        space = ctypes.c_void_p(workspace if size_bytes else None)

        def run(keep: Any = inputs) -> None:
            kind = self.entry(pointers, size_array, space, ctypes.byref(error))
            if kind:
                message = (error.message or b"").decode()
                for value in error.values:
                    message = message.replace("%lld", str(value), 1)
                raise KernelFault(ERROR_KINDS[kind], error.line, message)

        return run, results

    def release(self) -> None:
        """Free what grows in the workspace."""
        if self.memory is not None and hasattr(self.library, f"{self.source.name}_release"):
            getattr(self.library, f"{self.source.name}_release")(ctypes.c_void_p((self.memory.ctypes.data + 63) & ~63))
        self.memory = None

    def __del__(self) -> None:
        self.release()
