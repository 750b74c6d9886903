"""The types of launcher.c in Python, for machines where that cannot be compiled: the same behaviour, slower calls.

Reads the descriptions that launch.py makes. Previous: launch.py; next: load_python.py.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from tracegrad.runtime.signature import unflatten

ACCEPT_ARRAY, ACCEPT_FLOAT, ACCEPT_COMPLEX, ACCEPT_SCALAR = 1, 2, 4, 8
DIM_FIXED, DIM_BIND, DIM_MATCH, DIM_EXPRESSION = range(4)
PUSH_CONSTANT, PUSH_SYMBOL, DO_ADD, DO_MULTIPLY, DO_FLOOR_DIVIDE = range(5)
FORM_SCALAR, FORM_ARRAY, FORM_PYTHON = range(3)
STEP_ITEM, STEP_ATTRIBUTE, STEP_CELL, STEP_CALL = range(4)


class KernelError(ctypes.Structure):
    """struct tg_error of codegen/c_prelude.h."""

    _fields_ = (
        ("kind", ctypes.c_int),
        ("line", ctypes.c_int),
        ("column", ctypes.c_int),
        ("file", ctypes.c_char_p),
        ("message", ctypes.c_char_p),
        ("values", ctypes.c_int64 * 2),
    )


_ENTRY = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64), ctypes.c_void_p, ctypes.POINTER(KernelError)
)


class _Mismatch(Exception):
    """The arguments are not what the specialization takes."""


class _Frame:
    """The state of one call: inputs and size symbols bound so far."""

    def __init__(self, n_inputs: int, n_symbols: int) -> None:
        self.inputs: list[Any] = [None] * n_inputs
        self.values: list[Any] = [None] * n_inputs
        self.sizes: list[int] = [-1] * n_symbols

    def hold(self, index: int, value: Any, array: Any) -> None:
        """Take a value as a flat input. One that is reached in two ways must be the same object both times."""
        if self.inputs[index] is not None and self.values[index] is not value:
            raise _Mismatch
        self.inputs[index], self.values[index] = array, value


class Executable:
    """See launcher.c."""

    def __init__(
        self,
        *,
        entry: int,
        workspace_size: int,
        release: int,
        target: Callable[..., Any] | None,
        on_error: Callable[..., Any],
        names: tuple[str, ...],
        owner: FunctionType | None,
        arguments: tuple[Any, ...],
        sources: tuple[Any, ...],
        inputs: tuple[Any, ...],
        results: tuple[Any, ...],
        result_tree: Any,
        code: tuple[tuple[int, int], ...],
        minimums: tuple[int, ...],
        layout: bool,
        release_gil: bool,
        kept_bytes: int,
        keep: Any,
    ) -> None:
        self.entry = _ENTRY(entry) if entry else None
        sizes = [ctypes.c_int64] * len(minimums)
        self.workspace_size = ctypes.CFUNCTYPE(ctypes.c_int64, *sizes)(workspace_size) if workspace_size else None
        self.release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(release) if release else None
        self.target, self.on_error, self.names, self.owner = target, on_error, names, owner
        self.arguments, self.sources, self.inputs, self.results = arguments, sources, inputs, results
        self.result_tree, self.code, self.minimums, self.layout, self.keep = result_tree, code, minimums, layout, keep
        self.kept_bytes, self.busy = kept_bytes, threading.Lock()
        self.workspace: _Workspace | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        wanted = self.names[len(args) : len(self.arguments)]
        if len(args) > len(self.arguments) or not kwargs.keys() <= set(wanted):
            return NotImplemented
        defaults = (self.owner.__defaults__ or ()) if self.owner is not None else ()
        known = {**dict(zip(self.names[len(self.names) - len(defaults) :], defaults, strict=True)), **kwargs}
        if not set(wanted) <= known.keys():
            return NotImplemented
        args = (*args, *(known[name] for name in wanted))
        frame = _Frame(len(self.inputs), len(self.minimums))
        try:
            passed = self._bind_all(frame, args)
        except _Mismatch:
            return NotImplemented
        if self.target is not None:
            return self.target(*args, *passed)
        shapes = [tuple(self._size(d, frame) for d in dims) for _, dims, *_ in self.results]
        if any(n < 0 for shape in shapes for n in shape):
            return NotImplemented
        results = [np.empty(shape, spec[0]) for shape, spec in zip(shapes, self.results, strict=True)]
        self._run(frame, results)
        for array, spec in zip(frame.inputs, self.inputs, strict=True):
            if spec[3] >= 0:
                array[...] = results[spec[3]]
        given = [_form(result, spec[4]) for result, spec in zip(results, self.results, strict=True)]
        return unflatten(self.result_tree, given)

    def _bind_all(self, frame: _Frame, args: Sequence[Any]) -> list[Any]:
        for tree, value in zip(self.arguments, args, strict=True):
            self._bind(tree, value, frame)
        passed = []
        for base, argument, steps, is_passed, tree in self.sources:
            value = _read_source(args[argument] if argument >= 0 else base, steps)
            self._bind(tree, value, frame)
            if is_passed:
                passed.append(value)
        for array, (_, dims, *_) in zip(frame.inputs, self.inputs, strict=True):
            if any(
                d[0] == DIM_EXPRESSION and self._size(d, frame) != n for d, n in zip(dims, np.shape(array), strict=True)
            ):
                raise _Mismatch
        for i, spec in enumerate(self.inputs):
            others = [a for k, a in enumerate(frame.inputs) if k != i and isinstance(a, np.ndarray)]
            if spec[3] >= 0 and any(np.may_share_memory(frame.inputs[i], other) for other in others):
                raise _Mismatch
        return passed

    def _bind(self, tree: Any, value: Any, frame: _Frame) -> None:
        kind, data, children = tree
        if kind == "leaf":
            self._bind_leaf(data, value, frame)
            return
        parts: Sequence[Any] = ()
        if kind == "none":
            fits = value is None
        elif kind == "identity":
            fits = value is data.value
        elif kind == "static":
            fits = value is data[1] or (type(value) is type(data[1]) and _is_equal(value, data[1]))
        elif kind in ("tuple", "list", "named"):
            cls = {"tuple": tuple, "list": list, "named": data}[kind]
            fits = type(value) is cls and len(value) == len(children)
            parts = value
        elif kind == "dict":
            fits = type(value) is dict and len(value) == len(data) and all(map(_is_same_key, value, data))
            parts = list(value.values()) if fits else ()
        else:
            fits = type(value) is data[0] and all(hasattr(value, name) for name in data[1])
            parts = [getattr(value, name) for name in data[1]] if fits else ()
        if not fits:
            raise _Mismatch
        for child, part in zip(children, parts, strict=False):
            self._bind(child, part, frame)

    def _bind_leaf(self, index: int, value: Any, frame: _Frame) -> None:
        dtype, dims, accept, write_back, _ = self.inputs[index]
        if type(value) is not np.ndarray:
            kind = type(value)
            fits = (
                not dims
                and write_back < 0
                and (
                    (kind is float and accept & ACCEPT_FLOAT)
                    or (kind is complex and accept & ACCEPT_COMPLEX)
                    or (isinstance(value, np.generic) and accept & ACCEPT_SCALAR and value.dtype == dtype)
                )
            )
            if not fits:
                raise _Mismatch
            frame.hold(index, value, np.asarray(value, dtype))
            return
        flags = value.flags
        if (
            not accept & ACCEPT_ARRAY
            or value.ndim != len(dims)
            or value.dtype != dtype
            or (self.layout and not (flags.c_contiguous and flags.aligned))
            or (write_back >= 0 and not flags.writeable)
        ):
            raise _Mismatch
        for size, (kind, number, _) in zip(value.shape, dims, strict=True):
            if kind == DIM_FIXED:
                fits = size == number
            elif kind == DIM_EXPRESSION:
                fits = True  # checked when all symbols are bound
            elif frame.sizes[number] < 0:
                frame.sizes[number] = size
                fits = size >= self.minimums[number]
            else:
                fits = size == frame.sizes[number]
            if not fits:
                raise _Mismatch
        frame.hold(index, value, value)

    def _size(self, dim: tuple[int, int, int], frame: _Frame) -> int:
        kind, value, length = dim
        if kind == DIM_FIXED:
            return value
        if kind != DIM_EXPRESSION:
            return frame.sizes[value]
        stack: list[int] = []
        for op, operand in self.code[value : value + length]:
            if op == PUSH_CONSTANT:
                stack.append(operand)
            elif op == PUSH_SYMBOL:
                stack.append(frame.sizes[operand])
            else:
                b, a = stack.pop(), stack.pop()
                if op == DO_FLOOR_DIVIDE and b == 0:
                    return -1
                stack.append(a + b if op == DO_ADD else a * b if op == DO_MULTIPLY else a // b)
        return stack[0]

    def _run(self, frame: _Frame, results: list[Any]) -> None:
        assert self.entry is not None, "a kernel or a target"
        arrays = [*frame.inputs, *results]
        pointers = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
        sizes = (ctypes.c_int64 * len(frame.sizes))(*frame.sizes)
        size_bytes = self.workspace_size(*frame.sizes) if self.workspace_size is not None else 0
        own = size_bytes <= self.kept_bytes and self.busy.acquire(blocking=False)
        try:
            if own and (self.workspace is None or self.workspace.size_bytes < size_bytes):
                self.workspace = _Workspace(size_bytes, self.release, self.keep)
            workspace = self.workspace if own else _Workspace(size_bytes, self.release, self.keep)
            assert workspace is not None, "made above"
            error = KernelError()
            status = self.entry(ctypes.addressof(pointers), sizes, workspace.address, ctypes.byref(error))
        finally:
            if own:
                self.busy.release()
        if status:
            file, message = [(text or b"").decode("utf-8", "replace") for text in (error.file, error.message)]
            place = (file, error.line, error.column)
            self.on_error(error.kind or status, *place, message, error.values[0], error.values[1])
            raise SystemError("the error callback of a kernel returned")

    @property
    def workspace_bytes(self) -> int:
        """Size of the workspace kept between calls."""
        return self.workspace.size_bytes if self.workspace is not None else 0


class _Workspace:
    """Zeroed memory, aligned to 64 bytes, with what a kernel left in it."""

    def __init__(self, size_bytes: int, release: Callable[[int], None] | None, keep: Any) -> None:
        self.size_bytes, self.release, self.keep = size_bytes, release, keep
        self.memory = ctypes.create_string_buffer(size_bytes + 64)
        self.address = (ctypes.addressof(self.memory) + 63) & ~63

    def __del__(self) -> None:
        if self.release is not None and self.size_bytes:
            self.release(self.address)


class Dispatcher:
    """See launcher.c."""

    def __init__(self, slow: Callable[..., Any]) -> None:
        self.slow = slow
        self.executables: list[Callable[..., Any]] = []

    def add(self, executable: Callable[..., Any]) -> None:
        self.executables.insert(0, executable)

    def discard(self, executable: Callable[..., Any]) -> None:
        self.executables = [e for e in self.executables if e is not executable]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for executable in self.executables:
            result = executable(*args, **kwargs)
            if result is not NotImplemented:
                return result
        return self.slow(*args, **kwargs)


class Forward:
    """See launcher.c."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        return self if instance is None else getattr(instance, self.name)

    def __call__(self, instance: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(instance, self.name)(*args, **kwargs)


def _form(result: Any, form: int) -> Any:
    if result.ndim or form == FORM_ARRAY:
        return result
    return result.item() if form == FORM_PYTHON else result[()]


def _read_source(value: Any, steps: Sequence[tuple[int, Any]]) -> Any:
    try:
        for kind, key in steps:
            if kind == STEP_CELL:
                value = value.cell_contents
            elif kind == STEP_CALL:
                value = value()
            else:
                value = getattr(value, key) if kind == STEP_ATTRIBUTE else value[key]
    except Exception as error:  # an attribute may be computed by any code
        raise _Mismatch from error
    return value


def _is_equal(a: Any, b: Any) -> bool:
    try:
        return bool(a == b)
    except Exception:  # a comparison may be any code
        return False


def _is_same_key(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and _is_equal(a, b))
