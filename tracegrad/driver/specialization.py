"""A compiled instance: the program it was made of, whether what was read from outside is still as it was, and calls.

Made by pipeline.py; called by api.py. Previous: defaults.py; next: pipeline.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tracegrad.capture.context import Place
from tracegrad.capture.entry import Captured
from tracegrad.capture.guards import Compared, Same, is_open_container
from tracegrad.capture.known import contents_hold
from tracegrad.capture.sizes import SMALLEST
from tracegrad.capture.slots import set_slot
from tracegrad.capture.state import Undefined
from tracegrad.driver.derive import Request
from tracegrad.driver.launch import ExecutableSpec
from tracegrad.driver.tangents import cotangent_leaves
from tracegrad.driver.trees import ArgumentPlace, static_tree
from tracegrad.ir.core import Function
from tracegrad.ir.inline import own_callees
from tracegrad.ir.types import ArrayType, dim_evaluate, is_static
from tracegrad.passes.manager import final_pipeline, run_passes
from tracegrad.runtime.call import call_flat, check_byte_order, check_order, check_writable
from tracegrad.runtime.signature import NONE, Identity, Leaf, Signature, Tree, unflatten

#: called before each run with the program and the leaves of all its inputs; see debug.py
BEFORE_RUN: list[Callable[[Program, Sequence[Any]], None]] = []


@dataclass(slots=True)
class Program:
    """A captured and transformed function, before code generation; `user` is the one that was captured."""

    user: Callable[..., Any]
    captured: Captured
    request: Request
    signature: Signature
    build: Callable[[], Function]
    inputs: tuple[Leaf, ...]
    results: tuple[ArrayType, ...]
    tree: Tree
    weak: frozenset[int]
    write_back: dict[int, int]
    out: Tree = NONE
    owner: Any = None  # FunctionType, which mypy takes for a method
    _function: Function | None = None

    def hidden_values(self) -> list[Any]:
        """Read the hidden inputs."""
        return [hidden.place.read() for hidden in self.captured.hidden]

    @property
    def function(self) -> Function:
        """The optimised IR, made when first needed: a cached kernel does not need it."""
        if self._function is None:
            self._function = run_passes(self.build(), final_pipeline())
            for callee in own_callees(self._function):
                run_passes(callee, final_pipeline())
        return self._function


@dataclass(slots=True)
class Specialization:
    """One compiled instance.

    Attributes:
        direct: a callable for the fast path, or None when the result needs work in Python.
        timings: seconds by stage.
        cached: whether the kernel came from the compile cache.
    """

    program: Program
    backend: str
    flat: Callable[..., Any]
    spec: ExecutableSpec
    direct: Callable[..., Any] | None
    timings: dict[str, float] = field(default_factory=dict)
    cached: bool = False

    def sizes(self, signature: Signature) -> dict[str, int] | None:
        """Return the sizes of the symbols for the shapes of a call, or None when this instance does not serve them."""
        sizes: dict[str, int] = {}
        for own, leaf in zip(self.program.signature.leaves, signature.leaves, strict=True):
            for dim, size in zip(own.type.shape, leaf.type.shape, strict=True):
                assert isinstance(size, int), "the sizes of a call are ints"
                if isinstance(dim, int):
                    if dim != size:
                        return None
                elif size < SMALLEST or sizes.setdefault(str(dim), size) != size:
                    return None
        return sizes if all(fact.holds(sizes) for fact in self.program.captured.facts) else None

    def grow(self, error: MemoryError) -> bool:
        """Make more room for the lists of which a run has ended with an error that there was too little; return whether
        there is more. The instance does not hold any more then."""
        grown = [room.grow(items, error) for room, items in self.program.captured.rooms]
        return any(grown)

    def changed(self) -> list[str]:
        """Return the names of what was read from outside and is not as it was at capture."""
        captured = self.program.captured
        names = []
        for place, tree in self._read_outside():
            try:
                fits = _fits(tree, place.read(), self.program.inputs)
            except Exception:  # deleted since, or computed by any code
                fits = False
            if not fits:
                names.append(place.name)
        if not contents_hold(captured.contents):
            names.extend(self.program.signature.paths()[number] for number in captured.contents)
        return names

    def holds(self) -> bool:
        """Return whether what was read from outside is still as it was at capture."""
        if not contents_hold(self.program.captured.contents):
            return False
        try:
            return all(_fits(tree, place.read(), self.program.inputs) for place, tree in self._read_outside())
        except Exception:  # deleted since, or computed by any code
            return False

    def _read_outside(self) -> list[tuple[Place, Tree]]:
        """Return the places of guards and hidden inputs, with the tree that the value at each must fit."""
        captured, first = self.program.captured, len(self.program.signature.leaves)
        hidden = [(h.place, Tree("leaf", first + number, ())) for number, h in enumerate(captured.hidden)]
        return [*guard_trees(captured, first), *hidden]

    def call(self, values: Sequence[Any], arguments: Sequence[Any], tangents: Sequence[Any] = ()) -> Any:
        """Call with the array leaves of the arguments, which may have any layout; stores are made into `arguments`.

        Args:
            tangents: for "jvp", "push" and "hvp", one for each leaf that has one.
        """
        program = self.program
        every = [*values, *program.hidden_values(), *tangents]
        paths = [*program.signature.paths(), *(h.place.name for h in program.captured.hidden), *[""] * len(tangents)]
        for index in program.captured.laid_out:
            check_order(every[index], paths[index])
        for index in program.captured.native:
            check_byte_order(every[index], paths[index])
        for check in BEFORE_RUN:
            check(program, every)
        written = program.write_back if self.backend == "c" else None
        unread, keep = program.captured.unread, bool(program.captured.rooms)
        results = call_flat(self.flat, every, program.inputs, paths, written, unread=unread, keep=keep)
        if self.backend != "c":
            for index, result in program.write_back.items():
                check_writable(every, index, paths, unread)
                every[index][...] = results[result]
        value = unflatten(program.tree, [_finish(r, i in program.weak) for i, r in enumerate(results)])
        for effect in program.captured.effects:
            container = effect.container
            if isinstance(container, ArgumentPlace):
                container = container.find(arguments)
            stored = Undefined(str(effect.key)) if effect.result is None else effect.result.build(results, every)
            set_slot(container, effect.kind, effect.key, stored)
        return value

    def pull_back(self, primals: Sequence[Any], ct: Any) -> tuple[Any, ...]:
        """Call a "vjp" program with the leaves of the primals, hidden inputs included, and a cotangent of the
        result."""
        program = self.program
        types = [v.array_type for v in program.captured.function.results]
        if not all(is_static(t.shape) for t in types):
            sizes = {
                str(dim): size
                for leaf, primal in zip(program.inputs, primals, strict=False)  # the cotangents follow
                for dim, size in zip(leaf.type.shape, np.shape(primal), strict=True)
            }
            types = [t.with_shape(tuple(dim_evaluate(dim, sizes) for dim in t.shape)) for t in types]
        every = [*primals, *cotangent_leaves(program.out, ct, types)]
        for check in BEFORE_RUN:
            check(program, every)
        results = call_flat(self.flat, every, program.inputs, [""] * len(every))
        value: tuple[Any, ...] = unflatten(program.tree, [_finish(r, weak=False) for r in results])
        return value


def run(
    made: Specialization, find: Callable[[], Specialization], call_instance: Callable[[Specialization], Any]
) -> Any:
    """Return what `call_instance` gives for an instance, or others found after runs whose lists outgrew their room."""
    while True:
        try:
            return call_instance(made)
        except MemoryError as error:
            if not made.grow(error):
                raise
        made = find()


def _finish(result: Any, weak: bool) -> Any:
    """Return a result as a Python number if it is weak, any other number as NumPy's."""
    if weak:
        return result.item() if isinstance(result, np.generic | np.ndarray) else result
    return np.asarray(result)[()] if type(result) in (float, complex) else result


def guard_trees(captured: Captured, first: int) -> list[tuple[Place, Tree]]:
    """Return the guards of a capture with the tree that each value must fit; hidden inputs are numbered from
    `first`."""
    numbers = {hidden.place.key: first + number for number, hidden in enumerate(captured.hidden)}
    return [(place, _guard_tree(value, place, numbers)) for place, value in captured.guards]


def _guard_tree(value: Any, place: Place, numbers: dict[Any, int]) -> Tree:
    if place.key in numbers:
        return Tree("leaf", numbers[place.key], ())
    if isinstance(value, Same):
        return Tree("identity", Identity(value.value), ())
    if isinstance(value, Compared):
        return Tree("static", (type(value.value), value.value), ())
    if is_open_container(value):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        children = tuple(_guard_tree(item, place.step("item", key), numbers) for key, item in items)
        if isinstance(value, dict):
            return Tree("dict", tuple(value), children)
        if hasattr(value, "_fields"):
            return Tree("named", type(value), children)
        return Tree(type(value).__name__, None, children)
    if value is None or isinstance(value, bool | int | str | bytes | np.integer | np.bool_):
        return static_tree(value)
    return Tree("identity", Identity(value), ())


def _fits(tree: Tree, value: Any, leaves: Sequence[Leaf]) -> bool:
    if tree.kind == "leaf":
        return _fits_leaf(value, leaves[tree.data])
    if tree.kind == "none":
        return value is None
    if tree.kind == "identity":
        return value is tree.data.value
    if tree.kind == "static":
        return type(value) is tree.data[0] and bool(value == tree.data[1])
    kind = {"tuple": tuple, "list": list, "dict": dict}.get(tree.kind, tree.data)
    if type(value) is not kind or len(value) != len(tree.children):
        return False
    if kind is dict and tuple(value) != tree.data:
        return False
    items = value.values() if kind is dict else value
    return all(_fits(child, item, leaves) for child, item in zip(tree.children, items, strict=True))


def _fits_leaf(value: Any, leaf: Leaf) -> bool:
    if leaf.is_weak:
        return type(value).__name__ == leaf.kind
    classes: Any = {"0-d array": np.ndarray, "scalar": np.generic}.get(leaf.kind, np.ndarray | np.generic)
    return (
        isinstance(value, classes)
        and value.shape == leaf.type.shape
        and value.dtype.newbyteorder("=") == leaf.type.dtype
    )
