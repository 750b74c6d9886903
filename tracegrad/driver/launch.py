"""From a kernel, or a Python function, and a description of its interface to a callable that checks arguments.

Reads a LoadedLibrary and an ExecutableSpec; gives an Executable to pipeline.py. The callable types are those of
launcher.c, or of launch_ctypes.py where that cannot be compiled. Previous: extension.py; next: launch_ctypes.py.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final, Protocol, cast

from tracegrad.config import Options
from tracegrad.driver import launch_ctypes
from tracegrad.driver.blas import blas_table
from tracegrad.driver.cache import Cache
from tracegrad.driver.extension import load_extension
from tracegrad.driver.load_c import LoadedLibrary
from tracegrad.ir.types import ArrayType, Dim, SymbolicDim, dim_symbols
from tracegrad.runtime.call import Places, raise_kernel_error
from tracegrad.runtime.signature import NONE, Leaf, Tree, has_custom, result_tree

# The numbers of launcher.c.
DIM_FIXED, DIM_BIND, DIM_EXPRESSION = 0, 1, 3
PUSH_CONSTANT, PUSH_SYMBOL, DO_ADD, DO_MULTIPLY, DO_FLOOR_DIVIDE = range(5)
STEPS: Final = {"item": 0, "attribute": 1, "cell": 2, "call": 3}
ACCEPT: Final = {"array": 1 | 8, "0-d array": 1, "scalar": 8, "float": 2, "complex": 4}


@dataclass(frozen=True, slots=True)
class Source:
    """A value that is read at each call from a global, a closure or an attribute.

    Attributes:
        tree: what it must fit: a leaf is a hidden input, a static node is a guard.
        base: the object to start from: a module's dictionary, a closure cell, an object.
        argument: number of the argument to start from instead, or -1.
        steps: how to go on: ("item", key), ("attribute", name), ("cell", None) or ("call", None).
        passed: a Python target gets it, after the arguments.
    """

    tree: Tree
    base: Any = None
    argument: int = -1
    steps: tuple[tuple[str, Any], ...] = ()
    passed: bool = False


def source_of(read: Callable[[], Any], tree: Tree, *, passed: bool = False) -> Source:
    """Return the source of a value that `read()` gives.

    A function that only reads one global or one closure variable is not called: launcher.c reads the variable itself.
    """
    if isinstance(read, FunctionType):
        code = read.__code__
        if code.co_code == _READ_GLOBAL.co_code and len(code.co_names) == 1:
            return Source(tree, read.__globals__, steps=(("item", code.co_names[0]),), passed=passed)
        if code.co_code == _READ_CLOSURE.co_code and read.__closure__ is not None and len(read.__closure__) == 1:
            return Source(tree, read.__closure__[0], steps=(("cell", None),), passed=passed)
    return Source(tree, read, steps=(("call", None),), passed=passed)


def _closure_code(variable: object = None) -> CodeType:
    return (lambda: variable).__code__


_READ_GLOBAL: Final = (lambda: STEPS).__code__
_READ_CLOSURE: Final = _closure_code()


@dataclass(frozen=True, slots=True)
class ExecutableSpec:
    """The interface of one specialization.

    Attributes:
        names: of the parameters, in order.
        arguments: the tree of each argument; leaves are numbers of flat inputs.
        inputs: type of each flat input; dimensions may be symbolic. All of a kernel's parameters, in order.
        results: type of each flat result of the kernel, in order.
        result: tree of what the call returns; leaves are numbers of flat results. Not used with a Python target.
        sources: captured values.
        minimums: smallest size for which this holds, per size symbol; 0 where it is not given.
        write_back: number of a flat input -> number of the flat result that is copied into it after the call.
        release_gil: let other threads run although the arrays are small, because the kernel takes long.
        kept_bytes: size of the largest workspace that is kept between calls.
        array_results: numbers of results of rank 0 that are given as arrays rather than NumPy scalars.
        python_results: numbers of results of rank 0 that are given as Python numbers.
        owner: the Python function whose defaults fill in arguments that a call leaves out.
    """

    names: tuple[str, ...]
    arguments: tuple[Tree, ...]
    inputs: tuple[Leaf, ...]
    results: tuple[ArrayType, ...]
    result: Tree
    sources: tuple[Source, ...] = ()
    minimums: Mapping[str, int] = field(default_factory=dict)
    write_back: Mapping[int, int] = field(default_factory=dict)
    release_gil: bool = False
    kept_bytes: int = sys.maxsize
    array_results: frozenset[int] = frozenset()
    python_results: frozenset[int] = frozenset()
    owner: FunctionType | None = None

    def form(self, result: int) -> int:
        """Return in which form launcher.c gives a result of rank 0."""
        return 1 if result in self.array_results else 2 if result in self.python_results else 0

    def symbols(self) -> list[str]:
        """Return the size symbols, sorted: the order in which a kernel takes them."""
        dims = [d for t in (*(leaf.type for leaf in self.inputs), *self.results) for d in t.shape]
        return sorted(frozenset[str]().union(*map(dim_symbols, dims)))

    def flat(self) -> ExecutableSpec:
        """Return the spec of the same kernel called with all its flat inputs one by one."""
        leaves = tuple(Tree("leaf", i, ()) for i in range(len(self.inputs)))
        return replace(
            self, names=tuple(f"input{i}" for i in range(len(leaves))), arguments=leaves, sources=(), owner=None
        )

    def is_direct(self) -> bool:
        """Return whether arguments can be read as they come; else call the flat form."""
        return not any(map(has_custom, (*self.arguments, *(source.tree for source in self.sources))))


class Dispatcher(Protocol):
    """Tries Executables, then calls the slow path that it was made with."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    def add(self, executable: Any, /) -> None:
        """Add an Executable, to be tried first."""

    def discard(self, executable: Any, /) -> None:
        """Remove an Executable if it is there."""


def build_executable(
    spec: ExecutableSpec,
    library: LoadedLibrary | None = None,
    target: Callable[..., Any] | None = None,
    *,
    cache: Cache,
    options: Options,
    places: Places | None = None,
) -> Callable[..., Any]:
    """Return the callable for a kernel (`library`) or a Python function (`target`).

    Called, it gives the result, or NotImplemented when the arguments are not exactly what the spec says. A kernel's
    input arrays must be C-contiguous; a Python target gets the arguments as they are, then the sources `passed`.
    `places` finds the user's place for an error of a kernel.
    """
    assert (library is None) != (target is None), "one of library and target"
    symbols = spec.symbols()
    encoder = _Encoder(symbols)
    inputs = tuple(
        (leaf.type.dtype, encoder.dims(leaf.type), ACCEPT[leaf.kind], spec.write_back.get(i, -1), 0)
        for i, leaf in enumerate(spec.inputs)
    )
    bound = {d for leaf in spec.inputs for d in leaf.type.shape if isinstance(d, SymbolicDim)}
    for name in symbols:
        assert any(str(d) == name for d in bound), f"no input has a dimension that is just {name}"
    results = tuple((t.dtype, encoder.dims(t), 0, -1, spec.form(i)) for i, t in enumerate(spec.results))
    sources = tuple(
        (s.base, s.argument, tuple((STEPS[kind], key) for kind, key in s.steps), s.passed, s.tree) for s in spec.sources
    )
    if library is not None:
        _set_blas(library)
    return cast(
        Callable[..., Any],
        load_launcher(cache, options).Executable(
            entry=library.address(f"{library.name}_entry") if library else 0,
            workspace_size=library.address(f"{library.name}_workspace") if library else 0,
            release=library.address(f"{library.name}_release") if library else 0,
            target=target,
            on_error=functools.partial(raise_kernel_error, places=places),
            names=spec.names,
            owner=spec.owner,
            arguments=spec.arguments,
            sources=sources,
            inputs=inputs,
            results=results,
            result_tree=result_tree(spec.result) if library else NONE,
            code=tuple(encoder.code),
            minimums=tuple(spec.minimums.get(name, 0) for name in symbols),
            layout=target is None,
            release_gil=spec.release_gil,
            kept_bytes=spec.kept_bytes,
            keep=library,
        ),
    )


def build_dispatcher(slow: Callable[..., Any], *, cache: Cache, options: Options) -> Dispatcher:
    """Return a Dispatcher with no Executable yet."""
    return cast(Dispatcher, load_launcher(cache, options).Dispatcher(slow))


def build_forward(name: str, *, cache: Cache, options: Options) -> Any:
    """Return a method that calls the attribute `name` of its instance, for a `__call__` that costs no Python frame."""
    return load_launcher(cache, options).Forward(name)


def _set_blas(library: LoadedLibrary) -> None:
    address = library.address(f"{library.name}_set_blas")
    if address:
        table = blas_table()
        if table:
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)(table)


class _Encoder:
    """Dimensions as launcher.c reads them: (kind, value, length), with programs for expressions in `code`."""

    def __init__(self, symbols: list[str]) -> None:
        self.numbers = {name: i for i, name in enumerate(symbols)}
        self.code: list[tuple[int, int]] = []

    def dims(self, type: ArrayType) -> tuple[tuple[int, int, int], ...]:
        return tuple(self._dim(d) for d in type.shape)

    def _dim(self, dim: Dim) -> tuple[int, int, int]:
        if isinstance(dim, int):
            return (DIM_FIXED, dim, 0)
        if str(dim) in self.numbers:
            return (DIM_BIND, self.numbers[str(dim)], 0)
        start = len(self.code)
        self._program(dim)
        return (DIM_EXPRESSION, start, len(self.code) - start)

    def _program(self, dim: Dim) -> None:
        if isinstance(dim, int):
            self.code.append((PUSH_CONSTANT, dim))
            return
        for i, (monomial, coefficient) in enumerate(dim.terms):
            self.code.append((PUSH_CONSTANT, coefficient))
            for atom in monomial:
                if isinstance(atom, str):
                    self.code.append((PUSH_SYMBOL, self.numbers[atom]))
                else:
                    self._program(atom[1])
                    self._program(atom[2])
                    self.code.append((DO_FLOOR_DIVIDE, 0))
                self.code.append((DO_MULTIPLY, 0))
            if i > 0:
                self.code.append((DO_ADD, 0))


_launchers: dict[str, Any] = {}


def load_launcher(cache: Cache, options: Options) -> Any:
    """Return the module with the types Executable and Dispatcher: launcher.c compiled, or launch_ctypes."""
    if options.compiler not in _launchers:
        source = Path(__file__).parent / "launcher.c"
        _launchers[options.compiler] = load_extension("tracegrad_launcher", source, cache, options) or launch_ctypes
    return _launchers[options.compiler]
