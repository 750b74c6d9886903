"""Gradients inside a capture: captures a function at traced arguments, and stages it and its derivative in place.

Reads a request and traced values; stages IR into the capture in progress. Previous: tangents.py; next:
defaults.py.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from tracegrad.capture import entry
from tracegrad.capture.calls import call
from tracegrad.capture.changes import follow, stored_at
from tracegrad.capture.context import Storage, current, user_span
from tracegrad.capture.entry import function_name
from tracegrad.capture.joins import leave_branch
from tracegrad.capture.sharing import passing
from tracegrad.capture.slots import new_list
from tracegrad.capture.state import flatten, has_changed
from tracegrad.capture.state import unflatten as unflatten_state
from tracegrad.capture.tracer import Tracer, asarray, call_handler, from_value, is_traced
from tracegrad.capture.trees import Tree as StateTree
from tracegrad.capture.trees import is_mapping
from tracegrad.driver.derive import TANGENTS, Request, derive, inexact_part, leaf_numbers, without_aux
from tracegrad.driver.tangents import check_still, cotangent_leaves, not_a_float, tangent_leaves, tangent_name
from tracegrad.driver.trees import call_arguments, runtime_tree
from tracegrad.errors import CaptureError, Span
from tracegrad.ir.core import Block, Function, Value, clone_function
from tracegrad.ir.types import is_inexact
from tracegrad.runtime.signature import NONE, Tree, settings_of, unflatten
from tracegrad.transform.jvp import jvp
from tracegrad.transform.vjp import vjp, without_prints


def inline_vjp(
    function: Callable[..., Any], names: Sequence[str], values: Sequence[Any], count: int, has_aux: bool = False
) -> tuple[Any, Any]:
    """Stage `function` at traced arguments; return its result and the pullback to its first `count` arguments, which
    stages the cotangent sweep."""
    request = Request("vjp", has_aux=has_aux)
    inner, out = _inline_primal(function, request, names, values)
    return out, functools.partial(_pull_back, inner, count)


def inline_pullback(
    function: Callable[..., Any],
    names: Sequence[str],
    values: Sequence[Any],
    count: int,
    ct: Any,
    has_aux: bool = False,
) -> tuple[Any, ...]:
    """Stage the pullback of `function` to its first `count` arguments, where it was taken before this capture."""
    request = Request("vjp", has_aux=has_aux)
    return _pull_back(_capture_primal(function, request, names, values), count, ct)


def _pull_back(inner: _Inner, count: int, ct: Any) -> tuple[Any, ...]:
    cotangents = cotangent_leaves(inner.tree, ct, [v.array_type for v in inner.block.yields])
    made = vjp(inner.differentiable_part(), range(len(inner.outer)), keep_primal=False)
    found = _inline(made, [*inner.outer, *map(_staged, cotangents)])
    parts = [inexact_part(inner.arguments.get(p, NONE), range(len(inner.outer))) for p in range(count)]
    result: tuple[Any, ...] = unflatten(Tree("tuple", None, tuple(parts)), [from_value(v) for v in found])
    return result


def inline_linearize(
    function: Callable[..., Any], names: Sequence[str], values: Sequence[Any], has_aux: bool = False
) -> tuple[Any, Any]:
    """Stage `function` at traced arguments; return its result and a function of the tangents, one per argument (None is
    zero), that stages their push."""
    inner, out = _inline_primal(function, Request("jvp", has_aux=has_aux), names, values)
    types = [v.array_type for v in inner.outer]
    part = inner.differentiable_part()
    moved = inexact_part(inner.tree, inner.seeds())

    def push(tangents: Sequence[Any]) -> Any:
        for p in range(len(values)):
            if p not in inner.arguments:
                check_still(tangents[p], tangent_name(names[p]))
        chosen = [p for p in inner.arguments if tangents[p] is not None] or list(inner.arguments)
        given = [leaf for p in chosen for leaf in tangent_leaves(inner.arguments[p], tangents[p], types, names[p])]
        wrt = [number for p in chosen for number in leaf_numbers(inner.arguments[p])]
        pushed = jvp(part, wrt, keep_primal=False)
        return unflatten(moved, [from_value(v) for v in _inline(pushed, [*inner.outer, *map(_staged, given)])])

    return out, push


def _inline_primal(
    function: Callable[..., Any], request: Request, names: Sequence[str], values: Sequence[Any]
) -> tuple[_Inner, Any]:
    """Stage a function at traced arguments, to be differentiated by all its floats; return what it gives too.

    With `request.has_aux` the structure kept is that of the part to differentiate.
    """
    inner = _capture_primal(function, dataclasses.replace(request, has_aux=False), names, values)
    staged = _inline(clone_function(Function("function", inner.block)), inner.outer)
    inner.write(staged)
    out = unflatten(inner.tree, [from_value(v, weak=i in inner.weak) for i, v in enumerate(staged)])
    return (inner.without_aux(function) if request.has_aux else inner), out


def _capture_primal(
    function: Callable[..., Any], request: Request, names: Sequence[str], values: Sequence[Any]
) -> _Inner:
    chosen = tuple(p for p, value in enumerate(values) if holds_floats(value))
    inner = _capture_inner(function, dataclasses.replace(request, argnums=chosen), names, values)
    return inner.without_aux(function) if request.has_aux else inner


def _staged(leaf: Any) -> Value:
    value: Value = asarray(leaf).value
    return value


def _inline(made: Function, operands: Sequence[Value]) -> list[Value]:
    """Stage the body of a function, which is used up, at values of the capture in progress."""
    hoist_stacks(made, current().top)
    return current().builder.inline(made.body, operands)


def holds_floats(value: Any) -> bool:
    """Return whether an argument, during a capture, has a part that carries a derivative."""
    return any(_is_inexact_leaf(leaf) for leaf in flatten(value)[0])


def _is_inexact_leaf(leaf: Any) -> bool:
    if isinstance(leaf, float | complex):
        return True
    return isinstance(leaf, Tracer | np.ndarray | np.generic) and is_inexact(leaf.dtype)


@dataclass(slots=True)
class _Inner:
    """A function captured inside another capture: its block, the outer values of its parameters, what it returned.

    Attributes:
        arguments: by position, the structure of each argument differentiated by; leaves are numbers of parameters.
        writes: parts of the arguments that the function writes in place, with the number of the result that is their
            new content.
        store: stores into objects outside what the function has stored; it gets the results.
    """

    block: Block
    outer: list[Value]
    arguments: dict[int, Tree]
    tree: Tree
    weak: frozenset[int]
    writes: list[tuple[Any, int]]
    store: Callable[[Sequence[Value]], None]

    def without_aux(self, function: Callable[..., Any]) -> _Inner:
        """Return this with the structure of the first part of the result, which is differentiated."""
        name, types = function_name(function), [v.array_type for v in self.block.yields]
        return dataclasses.replace(self, tree=without_aux(name, self.tree, types)[0])

    def seeds(self) -> list[int]:
        """Return the numbers of the results that carry a derivative."""
        return [i for i in leaf_numbers(self.tree) if is_inexact(self.block.yields[i].dtype)]

    def write(self, results: Sequence[Value]) -> None:
        """Stage the writes into the arguments; `results` begins with those of the block."""
        for array, number in self.writes:
            call_handler(operator.setitem, array, ..., from_value(results[number]))
        self.store(results)

    def differentiable_part(self) -> Function:
        """Return the function that gives these results, and prints nothing: it has run before."""
        part = clone_function(without_prints(Function("function", self.block)))
        part.body.yields = [part.body.yields[i] for i in self.seeds()]
        return part


def _capture_inner(
    function: Callable[..., Any], request: Request, names: Sequence[str], values: Sequence[Any]
) -> _Inner:
    capture = current()
    trees = [flatten(value) for value in values]
    block = Block()
    outer: list[Value] = []
    stand_ins: dict[tuple[int, int], Tracer] = {}
    chosen: dict[int, Tree] = {}
    partly = request.kind == "vjp" or request.kind in TANGENTS
    for position in request.argnums:
        name = names[position].lstrip("=")
        numbers: list[Any] = []
        leaves, structure = trees[position]
        for number, (leaf, (path, is_setting)) in enumerate(zip(leaves, _leaf_paths(structure, name), strict=True)):
            is_left_out = (partly or is_setting) and not _is_inexact_leaf(leaf)
            tracer = None if is_left_out else _differentiable(leaf, path, name)
            if tracer is None:
                numbers.append(entry.Static(None))
                continue
            numbers.append(len(outer))
            outer.append(tracer.value)  # out here: a number known at capture becomes a constant where it is read
            param = Value(tracer.type, name)
            block.params.append(param)
            storage = Storage(tracer.type, capture.depth + 1, param)
            storage.zero_dim = tracer.zero_dim
            stand_ins[position, number] = Tracer(storage, weak=tracer.weak)
        chosen[position] = runtime_tree(entry.Result(structure, tuple(numbers), (False,) * len(numbers)))[0]
    passed = [(stand_in, trees[position][0][number]) for (position, number), stand_in in stand_ins.items()]
    with capture.open("inner", block) as frame, passing([(s, a) for s, a in passed if isinstance(a, Tracer)]):
        given = []
        for position, (leaves, structure) in enumerate(trees):
            inner = [stand_ins.get((position, number), leaf) for number, leaf in enumerate(leaves)]
            given.append((unflatten_state(structure, inner, new_list), inner, structure))
        args, kwargs = call_arguments(names, [argument for argument, _, _ in given])
        returned = call(function, *args, **kwargs)
        results: list[Value] = []
        result = entry.collect(returned, results)
        writes = []
        for (position, number), tracer in stand_ins.items():
            if tracer._storage.value not in block.params:
                writes.append((trees[position][0][number], len(results)))
                results.append(tracer.value)
        if any(has_changed(*argument) for argument in given):
            _refuse_store("an argument", stored_at(frame, [argument for argument, _, _ in given]))
        held = [*flatten(returned)[0], *stand_ins.values()]
        store = follow(frame, results, lambda change: _refuse_store(change.label, change.span), held)
        block.yields = results
    for storage in leave_branch(frame):
        _refuse_store("an array from outside", frame.places.get(storage))
    tree, weak = runtime_tree(result)
    return _Inner(block, outer, chosen, tree, weak, writes, store)


def _refuse_store(what: str, span: Span | None) -> NoReturn:
    raise CaptureError(
        "a function inside a gradient writes into an array or container from outside",
        code="TG208",
        span=span or user_span(),
        found=f"a store into {what} by the differentiated function",
        help="return the new array as auxiliary value (has_aux=True), or store a copy that stands in no other place",
    )


def inline_derivative(
    function: Callable[..., Any],
    request: Request,
    names: Sequence[str],
    values: Sequence[Any],
    tangents: Sequence[Any] = (),
) -> Any:
    """Stage a derivative of `function` at traced arguments into the capture in progress.

    Args:
        tangents: for "jvp" and "hvp", that of each argument.
    """
    inner = _capture_inner(function, request, names, values)
    primal = [v.array_type for v in inner.block.yields]
    types = [v.array_type for v in inner.outer]
    name = function_name(function)
    derived = derive(request, name, inner.arguments, types, inner.tree, primal, keep=True)
    made = derived.apply(Function(name, inner.block))
    given = [
        leaf
        for position, tree in inner.arguments.items()
        if request.kind in TANGENTS
        for leaf in tangent_leaves(tree, tangents[position], types, names[position])
    ]
    staged = _inline(made, [*inner.outer, *map(_staged, given)])
    inner.write(staged)
    return unflatten(derived.tree, [from_value(v, weak=i in inner.weak) for i, v in enumerate(staged)])


def _leaf_paths(tree: StateTree, path: str, is_setting: bool = False) -> list[tuple[str, bool]]:
    """Return the Python expression of each leaf of a value, and whether it is a setting if it is no float."""
    if tree.kind is None:
        return [(path, is_setting)]
    names = getattr(tree.kind, "_fields", tree.data)
    if is_mapping(tree):
        steps = [f"[{key!r}]" for key in tree.data]
    elif isinstance(names, tuple):
        steps = [f".{name}" for name in names]
    else:
        steps = [f"[{position}]" for position in range(len(tree.children))]
    settings = settings_of(tree.kind)
    return [
        found
        for child, step in zip(tree.children, steps, strict=True)
        for found in _leaf_paths(child, path + step, step[1:] in settings)
    ]


def _differentiable(leaf: Any, path: str, name: str) -> Tracer | None:
    """Return a part of an argument that an inner gradient differentiates by; None for what is no number.

    Raises:
        ArgumentTypeError: it is a number, but no float.
    """
    if not (isinstance(leaf, Tracer | int | float | complex | np.ndarray | np.generic) or is_traced(leaf)):
        return None
    tracer = asarray(leaf)
    if is_inexact(tracer.dtype):
        return tracer
    raise not_a_float(path, name, str(leaf if isinstance(leaf, int) else tracer.type), user_span())


def hoist_stacks(function: Function, block: Block) -> None:
    """Move the stacks of an inner gradient to the top of the function that it is staged in; each is empty between its
    uses."""
    stacks = [o for o in function.body.operations if o.op == "stack"]
    function.body.operations = [o for o in function.body.operations if o.op != "stack"]
    block.operations[:0] = stacks
