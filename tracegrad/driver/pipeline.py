"""Composes the stages: capture, transform, passes, codegen, load. The only file that knows them all.

Reads a function and the signature of a call; gives a Specialization to api.py.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import operator
import os
import re
import textwrap
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, NoReturn

import numpy as np

from tracegrad import codegen
from tracegrad.capture import entry
from tracegrad.capture import recursion as _recursion  # noqa: F401 stages recursive calls
from tracegrad.capture.attempts import error_name
from tracegrad.capture.calls import call
from tracegrad.capture.changes import follow, stored_at
from tracegrad.capture.context import Place, Storage, current, is_capturing, user_level, user_span
from tracegrad.capture.entry import Captured
from tracegrad.capture.guards import Compared, Same, is_open_container
from tracegrad.capture.joins import leave_branch
from tracegrad.capture.known import contents_hold
from tracegrad.capture.lists import RecordKind, RecordList, StackedList, records_of, rows_of
from tracegrad.capture.ragged import Cut, Ragged
from tracegrad.capture.sharing import passing
from tracegrad.capture.sizes import SMALLEST
from tracegrad.capture.slots import new_list, set_slot
from tracegrad.capture.state import Undefined, flatten, has_changed
from tracegrad.capture.state import unflatten as unflatten_state
from tracegrad.capture.tracer import Tracer, asarray, call_handler, cast_to, from_value, is_traced
from tracegrad.capture.trees import Tree as StateTree
from tracegrad.capture.trees import is_mapping
from tracegrad.codegen.variables import Names
from tracegrad.config import Options, load_options
from tracegrad.driver.cache import Cache, open_cache
from tracegrad.driver.derive import TANGENTS, Request, derive, inexact_part, leaf_numbers, tree_text, without_aux
from tracegrad.driver.key import normalize_ir, package_fingerprint
from tracegrad.driver.launch import ExecutableSpec, Source, build_executable
from tracegrad.driver.load_c import compile_c, kernel_key, load_cached
from tracegrad.driver.load_python import load_python
from tracegrad.driver.toolchain import NoCompilerError, find_toolchain
from tracegrad.errors import ArgumentTypeError, CaptureError, CompileError, Span
from tracegrad.ir.core import Block, Function, Interface, Value, clone_function, walk
from tracegrad.ir.inline import own_callees
from tracegrad.ir.printer import print_function
from tracegrad.ir.types import ArrayType, dim_evaluate, dim_symbols, is_inexact, is_static
from tracegrad.ops import full
from tracegrad.passes.manager import default_pipeline, final_pipeline, run_passes
from tracegrad.runtime.call import Places, call_flat, check_writable, with_user_lines
from tracegrad.runtime.signature import NONE, Identity, Leaf, Signature, Tree, open_custom, settings_of, unflatten
from tracegrad.transform.jvp import jvp
from tracegrad.transform.vjp import vjp, without_prints

logger = logging.getLogger("tracegrad")

#: the backend that the capture in progress is for: batching takes another form in C than in NumPy
target_backend: ContextVar[str] = ContextVar("tracegrad_target_backend", default="numpy")

#: called before each run with the program and the leaves of all its inputs; see debug.py
BEFORE_RUN: list[Callable[[Program, Sequence[Any]], None]] = []

_FAULTS = re.compile(r"(= |^ *)(check|gather|scatter_\w+|solve|cholesky|inv|triangular_solve|cofactor)\b")


@dataclass(slots=True)
class Program:
    """A captured and transformed function, before code generation."""

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
        inputs, first = self.program.inputs, len(self.program.signature.leaves)
        hidden = [(h.place, Tree("leaf", first + number, ())) for number, h in enumerate(captured.hidden)]
        names = []
        for place, tree in [*_guard_trees(captured, first), *hidden]:
            try:
                fits = _fits(tree, place.read(), inputs)
            except Exception:  # deleted since, or computed by any code
                fits = False
            if not fits:
                names.append(place.name)
        if not contents_hold(captured.contents):
            names.extend(self.program.signature.paths()[number] for number in captured.contents)
        return names

    def holds(self) -> bool:
        """Return whether what was read from outside is still as it was at capture."""
        captured = self.program.captured
        inputs, first = self.program.inputs, len(self.program.signature.leaves)
        hidden = [(h.place, Tree("leaf", first + number, ())) for number, h in enumerate(captured.hidden)]
        if not contents_hold(captured.contents):
            return False
        try:
            return all(_fits(tree, place.read(), inputs) for place, tree in [*_guard_trees(captured, first), *hidden])
        except Exception:  # deleted since, or computed by any code
            return False

    def call(self, values: Sequence[Any], arguments: Sequence[Any], tangents: Sequence[Any] = ()) -> Any:
        """Call with the array leaves of the arguments, which may have any layout; stores are made into `arguments`.

        Args:
            tangents: for "jvp", "push" and "hvp", one for each leaf that has one.
        """
        program = self.program
        every = [*values, *program.hidden_values(), *tangents]
        paths = [*program.signature.paths(), *(h.place.name for h in program.captured.hidden), *[""] * len(tangents)]
        for check in BEFORE_RUN:
            check(program, every)
        written = program.write_back if self.backend == "c" else None
        results = call_flat(self.flat, every, program.inputs, paths, written, keep=bool(program.captured.rooms))
        if self.backend != "c":
            for index, result in program.write_back.items():
                check_writable(every, index, paths)
                every[index][...] = results[result]
        value = unflatten(program.tree, [_finish(r, i in program.weak) for i, r in enumerate(results)])
        for effect in program.captured.effects:
            container = effect.container
            if isinstance(container, ArgumentPlace):
                container = container.find(arguments)
            value_after = Undefined(str(effect.key)) if effect.result is None else effect.result.build(results)
            set_slot(container, effect.kind, effect.key, value_after)
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


# ---- front: capture and transform


def build_program(
    function: Callable[..., Any],
    request: Request,
    signature: Signature,
    sizes: Mapping[str, int] | None = None,
    *,
    backend: str = "numpy",
) -> Program:
    """Capture a function for a signature and transform it as requested.

    Args:
        sizes: an example size for each size symbol in the signature; decides what Python must decide at capture.
        backend: what the code will be; either can be made of any program, but it suits this one.
    """
    by: set[int] = set()
    if request.kind not in TANGENTS:  # where other leaves have no tangent
        _check_differentiable(request, signature)
        by = {number for argnum in request.argnums for number in leaf_numbers(signature.arguments[argnum])}
    leaves = [
        entry.Leaf(leaf.type, leaf.is_weak, path, number in by, leaf.kind == "0-d array")
        for number, (leaf, path) in enumerate(zip(signature.leaves, signature.paths(), strict=True))
    ]
    names = signature.names

    places: dict[int, tuple[Any, ArgumentPlace]] = {}

    def rebuild(values: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        arguments = [unflatten(tree, values) for tree in signature.arguments]
        for position, (tree, argument) in enumerate(zip(signature.arguments, arguments, strict=True)):
            _locate(tree, argument, ArgumentPlace(position, ()), places)
        return call_arguments(names, arguments)

    token = target_backend.set(backend)
    try:
        captured = entry.capture(function, leaves, rebuild, tuple(n.lstrip("=") for n in names), sizes)
    finally:
        target_backend.reset(token)
    captured.effects = [
        dataclasses.replace(e, container=places[id(e.container)][1]) if id(e.container) in places else e
        for e in captured.effects
    ]
    inputs = (*signature.leaves, *(Leaf(h.value.array_type, _kind(h.tracer)) for h in captured.hidden))
    primal = [v.array_type for v in captured.function.results]
    tree, weak = runtime_tree(captured.result)
    if request.kind != "function":
        _require_lengths(request, without_aux(captured.function.name, tree, primal)[0] if request.has_aux else tree)
    if request.kind == "function":
        interface = captured.function.interface

        def build() -> Function:
            copy = clone_function(captured.function)
            copy.interface = interface
            return copy

        return Program(
            captured,
            request,
            signature,
            build,
            inputs,
            tuple(primal),
            tree,
            weak,
            dict(captured.write_back),
            owner=owner_of_defaults(function, names),
        )
    if request.kind == "push":  # the stores were made when the function ran
        captured.effects, captured.write_back = [], {}
    arguments = {a: signature.arguments[a] for a in request.argnums}
    keep = bool(captured.effects) or bool(captured.write_back)
    types = [leaf.type for leaf in inputs]
    derived = derive(request, captured.function.name, arguments, types, tree, primal, keep)
    original = captured.function.interface
    assert original is not None
    added: list[str] = []
    if request.kind in TANGENTS:
        paths = [original.paths[number] for number in derived.wrt]
        added = [f"t_{entry.leaf_name(path)}" for path in paths]
        inputs = (*inputs, *(Leaf(types[number]) for number in derived.wrt))

    def build_derivative() -> Function:
        # what is read once contributes once, and what does not change in a loop is not kept per iteration
        made = derived.apply(run_passes(clone_function(captured.function), default_pipeline()))
        made.name = f"{captured.function.name}_{request.kind}"
        made.interface = _extended(original, added, tree_text(derived.tree))
        return made

    weak = weak if derived.keeps else frozenset()
    return Program(
        captured,
        request,
        signature,
        build_derivative,
        inputs,
        derived.results,
        derived.tree,
        weak,
        dict(captured.write_back),
        owner=owner_of_defaults(function, names),
    )


def _require_lengths(request: Request, tree: Tree) -> None:
    """Check that what is differentiated has a size that is known before the program runs."""
    if tree.kind == "call" and isinstance(tree.data, Cut):
        raise ArgumentTypeError(
            f"{request.kind} of an array or list whose length is known only when the function has run",
            code="TG202",
            span=None,
            found="a result of which a traced condition decides how many elements it has",
            help="differentiate a number that is computed of it (a sum, an element), and return the whole beside it "
            "with has_aux=True",
        )
    for child in tree.children:
        _require_lengths(request, child)


def owner_of_defaults(function: Callable[..., Any], names: Sequence[str]) -> FunctionType | None:
    """Return the function whose `__defaults__` fill in missing arguments, for a Python function with just these
    parameters."""
    if not isinstance(function, FunctionType) or hasattr(function, "__wrapped__"):
        return None
    code = function.__code__
    return function if code.co_varnames[: code.co_argcount] == tuple(names) else None


def _extended(interface: Interface, added: Sequence[str], result: str) -> Interface:
    """Return an interface with further arguments, called otherwise where the user's function has that name."""
    names = Names(interface.arguments)
    more = tuple(names.fresh(name) for name in added)
    return Interface((*interface.arguments, *more), (*interface.paths, *more), result)


@dataclass(frozen=True, slots=True)
class ArgumentPlace:
    """A container or object among the arguments of a call: the argument's position, then steps as in Place."""

    position: int
    steps: tuple[tuple[str, Any], ...]

    def find(self, arguments: Sequence[Any]) -> Any:
        """Return the object in the arguments of another call."""
        return Place(arguments[self.position], self.steps, "").read()


def _locate(tree: Tree, value: Any, place: ArgumentPlace, places: dict[int, tuple[Any, ArgumentPlace]]) -> None:
    """Note where in the arguments each container and object stands."""
    if tree.kind in ("leaf", "none"):
        return
    places[id(value)] = (value, place)
    keys: Sequence[Any] = range(len(tree.children))
    kind = "item"
    if tree.kind == "dict":
        keys = tree.data
    elif tree.kind == "object":
        kind, keys = "attribute", tree.data[1]
    elif tree.kind == "custom":
        if not isinstance(value, dict):
            return  # how its parts are reached is not known
        keys = open_custom(value)[1]
    for key, child in zip(keys, tree.children, strict=True):
        step = (kind, key)
        inner = Place(value, (step,), "").read()
        _locate(child, inner, ArgumentPlace(place.position, (*place.steps, step)), places)


def _kind(tracer: Any) -> str:
    if not tracer.weak:
        return "array" if tracer.ndim else "0-d array" if tracer.is_array else "scalar"
    return "complex" if tracer.dtype.kind == "c" else "float"


def call_arguments(names: Sequence[str], values: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Turn named argument values back into a call; names that start with `=` go by keyword."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for name, value in zip(names, values, strict=True):
        if name.startswith("="):
            kwargs[name[1:]] = value
        else:
            args.append(value)
    return tuple(args), kwargs


def _check_differentiable(request: Request, signature: Signature) -> None:
    for argnum in request.argnums:
        tree, name = signature.arguments[argnum], signature.names[argnum].lstrip("=")
        for path, leaf in _leaves(tree, signature, name):
            if leaf is None or not is_inexact(leaf.type.dtype):
                raise _no_float(path, name, str(leaf) if leaf is not None else "an int or bool", None)


def _leaves(tree: Tree, signature: Signature, path: str) -> list[tuple[str, Leaf | None]]:
    """Return the arrays and numbers of an argument, by path; None stands for an int or bool, settings are left out."""
    if tree.kind == "leaf":
        return [(path, signature.leaves[tree.data])]
    if tree.kind == "static" and tree.data[0] in (int, bool):
        return [(path, None)]
    steps, settings = _steps(tree)
    return [
        (inner, leaf)
        for child, step in zip(tree.children, steps, strict=True)
        for inner, leaf in _leaves(child, signature, path + step)
        if step[1:] not in settings or (leaf is not None and is_inexact(leaf.type.dtype))
    ]


def _steps(tree: Tree) -> tuple[list[str], frozenset[str]]:
    """Return the Python expressions of the children of a tree, after that of the whole; and which fields are
    settings."""
    if tree.kind == "dict":
        return [f"[{key!r}]" for key in tree.data], frozenset()
    if tree.kind in ("object", "named"):
        cls, names = tree.data if tree.kind == "object" else (tree.data, tree.data._fields)
        return [f".{name}" for name in names], settings_of(cls)
    return [f"[{position}]" for position in range(len(tree.children))], frozenset()


def build_vjp_program(
    function: Callable[..., Any],
    signature: Signature,
    sizes: Mapping[str, int] | None = None,
    *,
    count: int | None = None,
    backend: str = "numpy",
    has_aux: bool = False,
) -> Program:
    """Return the program that maps arguments and a cotangent of the result to cotangents of the arguments.

    Args:
        count: how many arguments, from the first, get a cotangent; by default all.
    """
    primal = build_program(function, Request(), signature, sizes, backend=backend)
    captured = primal.captured
    by = signature.arguments[:count]
    wrt = [n for tree in by for n in leaf_numbers(tree) if is_inexact(signature.leaves[n].type.dtype)]
    out = without_aux(captured.function.name, primal.tree, primal.results)[0] if has_aux else primal.tree
    _require_lengths(Request("vjp"), out)
    seeds = [i for i in leaf_numbers(out) if is_inexact(primal.results[i].dtype)]
    tree = Tree("tuple", None, tuple(inexact_part(t, wrt) for t in by))

    def build() -> Function:
        copy = clone_function(without_prints(captured.function))
        copy.body.yields = [copy.body.yields[i] for i in seeds]
        made = vjp(run_passes(copy, default_pipeline()), wrt, keep_primal=False)
        made.name = f"{captured.function.name}_vjp"
        interface = captured.function.interface
        assert interface is not None
        added = [f"ct_{i}" if len(seeds) > 1 else "ct" for i in range(len(seeds))]
        made.interface = _extended(interface, added, tree_text(tree))
        return made

    inputs = (*primal.inputs, *(Leaf(primal.results[i]) for i in seeds))
    results = tuple(signature.leaves[i].type for i in wrt)
    request = Request("vjp", tuple(range(len(by))), False, has_aux)
    made = Program(captured, request, signature, build, inputs, results, tree, frozenset(), {})
    made.out = out
    return made


def cotangent_leaves(
    tree: Tree, ct: Any, types: Sequence[ArrayType], path: str = "ct", of: str = "result"
) -> list[Any]:
    """Return the leaves of a cotangent that has the structure of a result, or of the tangent of an argument; None is
    zero.

    Args:
        tree: the structure, whose leaves are numbers in `types`.
        ct: arrays, or tracers during a capture.
        of: "result" or "argument".

    Raises:
        ArgumentTypeError: it has another structure, or a leaf another shape.
    """
    if ct is None:
        kinds = [types[number] for number in leaf_numbers(tree)]
        return [_zero(kind) for kind in kinds if is_inexact(kind.dtype)]
    if tree.kind == "leaf":
        kind = types[tree.data]
        if not is_inexact(kind.dtype):
            if of == "argument":
                check_still(ct, path)
            return []
        array = ct if isinstance(ct, Tracer) else np.asarray(ct)
        if array.shape != kind.shape or not np.can_cast(array.dtype, kind.dtype, "same_kind"):
            found = ct.type if isinstance(ct, Tracer) else f"{array.dtype} array of shape {array.shape}"
            raise _misfit(path, str(kind), str(found), of)
        return [cast_to(ct, kind.dtype) if isinstance(ct, Tracer) else array.astype(kind.dtype)]
    if tree.kind in ("none", "static", "identity"):
        if of == "argument":
            check_still(ct, path)
        return []
    if tree.kind == "dict":
        if not isinstance(ct, dict) or set(ct) != set(tree.data):
            raise _misfit(path, f"a dict with keys {list(tree.data)}", repr(ct)[:100], of)
        items = [ct[key] for key in tree.data]
    elif tree.kind == "object":
        items = [getattr(ct, name) for name in tree.data[1]]
    elif tree.kind == "custom":
        if type(ct) is not tree.data.cls or (opened := open_custom(ct))[0] != tree.data:
            raise _misfit(path, f"{tree.data.cls.__name__} of the same structure", repr(ct)[:100], of)
        items = list(opened[2])
    else:
        if not isinstance(ct, tuple | list) or len(ct) != len(tree.children):
            raise _misfit(path, f"a {tree.kind} of {len(tree.children)}", repr(ct)[:100], of)
        items = list(ct)
    steps, settings = _steps(tree)
    return [
        leaf
        for child, item, step in zip(tree.children, items, steps, strict=True)
        if child.kind != "static" or step[1:] not in settings  # what a copy of the argument has there is no tangent
        for leaf in cotangent_leaves(child, item, types, path + step, of)
    ]


def tangent_leaves(tree: Tree, tangent: Any, types: Sequence[ArrayType], name: str) -> list[Any]:
    """Return the leaves of the tangent of an argument; None is zero.

    Raises:
        ArgumentTypeError: it does not fit the argument, or is not zero where the argument is no float.
    """
    return cotangent_leaves(tree, tangent, types, tangent_name(name), "argument")


def _zero(kind: ArrayType) -> Any:
    """Return the zero of a type, whose sizes may be symbolic during a capture."""
    if is_capturing():
        return from_value(full(shape=kind.shape, dtype=kind.dtype, value=0.0))
    return np.zeros(kind.shape, kind.dtype)


def tangent_name(name: str) -> str:
    return f"the tangent of {name.lstrip('=')}"


def check_still(tangent: Any, path: str) -> None:
    """Check that the tangent of what is no float is zero.

    Raises:
        ArgumentTypeError: it is not, or this is not known at capture.
    """
    if isinstance(tangent, dict):
        parts = [*tangent.values()]
    elif isinstance(tangent, tuple | list):
        parts = [*tangent]
    else:
        parts = [*vars(tangent).values()] if dataclasses.is_dataclass(tangent) else []
        unknown = isinstance(tangent, Tracer) and tangent.concrete is None
        content = tangent.concrete if isinstance(tangent, Tracer) else tangent
        if unknown or (isinstance(content, np.ndarray | np.generic | int | float | complex) and np.any(content)):
            found = tangent.type if isinstance(tangent, Tracer) else repr(tangent)[:100]
            raise ArgumentTypeError(
                "a tangent that is not zero is given for an argument that is not a float",
                code="TG201",
                span=user_span() if is_capturing() else None,
                found=f"{path}: {found}",
                help="pass the argument as float (3.0, or x.astype(float)), or None as its tangent",
            )
    for part in parts:
        check_still(part, path)


def _misfit(path: str, wanted: str, found: str, of: str) -> ArgumentTypeError:
    what = "cotangent" if of == "result" else "tangent"
    return ArgumentTypeError(
        f"the {what} does not fit the {of}",
        code="TG209",
        span=user_span() if is_capturing() else None,
        found=f"{path}: {found}; the {of} is {wanted}",
        help=f"give a {what} with the structure, shapes and dtypes of the "
        + ("function's result" if of == "result" else "argument"),
    )


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
        name, types = getattr(function, "__name__", "function"), [v.array_type for v in self.block.yields]
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
    name = getattr(function, "__name__", "function")
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
    raise _no_float(path, name, str(leaf if isinstance(leaf, int) else tracer.type), user_span())


def _no_float(path: str, name: str, found: str, span: Span | None) -> ArgumentTypeError:
    """Return the error for a number that is no float, in an argument that the gradient is asked for."""
    apart = "leave the argument out of argnums"
    if path != name:
        apart = f"pass {path} as an argument of its own, or in a field of a dataclass that is declared int or bool"
    return ArgumentTypeError(
        f"the gradient with respect to {path} is not defined: it is not a float",
        code="TG201",
        span=span,
        found=f"{path}: {found}",
        help=f"pass floats (3.0, or x.astype(float)), or {apart}",
    )


def hoist_stacks(function: Function, block: Block) -> None:
    """Move the stacks of an inner gradient to the top of the function that it is staged in; each is empty between its
    uses."""
    stacks = [o for o in function.body.operations if o.op == "stack"]
    function.body.operations = [o for o in function.body.operations if o.op != "stack"]
    block.operations[:0] = stacks


def runtime_tree(result: entry.Result) -> tuple[Tree, frozenset[int]]:
    """Return the structure of a result outside of captures, and which of its numbers are Python's own."""
    leaves = iter(zip(result.leaves, result.weak, strict=True))
    weak: set[int] = set()

    def convert(tree: StateTree) -> Tree:
        if tree.kind is None:
            leaf, is_weak = next(leaves)
            if isinstance(leaf, entry.Static):
                return _static(leaf.value)
            if is_weak:
                weak.add(leaf)
            return Tree("leaf", leaf, ())
        children = tuple(convert(child) for child in tree.children)
        if tree.kind is Ragged:
            return Tree("call", Cut(tree.data), children)
        if tree.kind is StackedList:
            nested = tree.data[0].nested
            return Tree("call", functools.partial(rows_of, nested=nested) if nested else list, children)
        if tree.kind is RecordList:
            return Tree("call", functools.partial(_records, tree.data[0]), children)
        if tree.kind in (tuple, list):
            return Tree(tree.kind.__name__, None, children)
        if tree.kind is dict:
            return Tree("dict", tree.data, children)
        if tree.kind is OrderedDict:
            return Tree("custom", open_custom(OrderedDict.fromkeys(tree.data))[0], children)
        if hasattr(tree.kind, "_fields"):
            return Tree("named", tree.kind, children)
        return Tree("object", (tree.kind, tree.data), children)

    return convert(result.tree), frozenset(weak)


def _records(kind: RecordKind, *arrays: Any) -> list[Any]:
    return records_of(kind, arrays)


def _static(value: Any) -> Tree:
    if value is None:
        return NONE
    try:
        hash(value)
    except TypeError:
        return Tree("identity", Identity(value), ())
    return Tree("static", (type(value), value), ())


# ---- back: code generation and loading


def source_header(program: Program, backend: str) -> str:
    """Return comment lines that say what generated code was made for."""
    signature = program.signature
    lines = [f"made for {signature.describe() or 'no arguments'}"]
    fixed = [n.lstrip("=") for n, t in zip(signature.names, signature.arguments, strict=True) if t.kind == "static"]
    if fixed:
        lines.append(f"{', '.join(fixed)}: fixed in this code, whatever value is passed")
    decided = [signature.paths()[number] for number in sorted(program.captured.contents)]
    if decided:
        lines.append(f"{', '.join(decided)}: sizes and indices computed from it are fixed in this code")
    hidden = program.captured.hidden
    if hidden:
        lines.append(f"after the arguments: {', '.join(h.place.name for h in hidden)}, read from outside at each call")
    unrolled = [
        f"{os.path.basename(span.file)}:{span.line}: the loop is {event.removeprefix('for: ')}"
        for span, event in program.captured.events
        if span is not None and event.startswith("for: unrolled")
    ]
    lines += dict.fromkeys(unrolled)
    wrapped = [part for line in lines for part in textwrap.wrap(line, 96, subsequent_indent="  ")]
    if backend == "c":
        return "".join(f"/* {line} */\n" for line in wrapped)
    return "".join(f"# {line}\n" for line in wrapped)


def source_text(program: Program, backend: str) -> str:
    """Return the generated code of a program."""
    if backend == "c":
        return codegen.emit_c(program.function, threads=load_options().num_threads).text
    return codegen.emit_numpy(program.function)


_warned_no_compiler = False


def compile_program(program: Program, backend: str, options: Options | None = None) -> Specialization:
    """Generate, compile and load a program."""
    options = options or load_options()
    cache = open_cache(options)
    started = time.perf_counter()
    if backend == "c":
        try:
            made = _compile_c(program, cache, options)
        except NoCompilerError as error:
            _warn_no_compiler(error)
            made = _compile_numpy(program, cache, options)
        except CompileError as error:
            if error.code != "TG620":  # what the C backend does not cover
                raise
            warnings.warn(f"{error.title}; the NumPy backend is used instead", RuntimeWarning, stacklevel=user_level())
            made = _compile_numpy(program, cache, options)
    else:
        made = _compile_numpy(program, cache, options)
    made.timings["compile"] = time.perf_counter() - started
    return made


def _warn_no_compiler(error: NoCompilerError) -> None:
    global _warned_no_compiler
    if not _warned_no_compiler:
        _warned_no_compiler = True
        warnings.warn(
            f"no C compiler is found, so the NumPy backend is used instead ({error.found})",
            RuntimeWarning,
            stacklevel=user_level(),
        )


def _compile_c(program: Program, cache: Cache, options: Options) -> Specialization:
    toolchain = find_toolchain(options, cache)
    request = program.request
    key_text = _key_text(program.captured.function)
    name = f"{program.captured.function.name}_{request.kind}"
    threads = options.num_threads if toolchain.threads else 1
    key = kernel_key(
        name,
        key_text,
        toolchain,
        options,
        generator=package_fingerprint(),
        request=f"{request.kind} {request.argnums} {request.has_aux}",
        threads=str(threads),
    )
    library = load_cached(key, cache)
    cached = library is not None
    if library is None:
        code = codegen.emit_c(program.function, threads=threads)
        library = compile_c(
            code.text, code.name, cache=cache, options=options, key=_renamed(key, code.name), metadata={}
        )
    spec = _spec(program, kernel=True)
    places = _places(lambda: program.function)
    flat = build_executable(_flat(spec), library, cache=cache, options=options, places=places)
    direct = None
    if spec.is_direct() and _is_direct(program):
        direct = build_executable(spec, library, cache=cache, options=options, places=places)
    return Specialization(program, "c", flat, spec, direct, cached=cached)


def _key_text(function: Function) -> str:
    """Return IR text without source positions, except for operations whose errors name the line."""
    lines = print_function(function).splitlines()
    return "\n".join(line if _FAULTS.search(line) else normalize_ir(line) for line in lines)


def _renamed(key: Any, name: str) -> Any:
    return dataclasses.replace(key, name=name)


def _is_direct(program: Program) -> bool:
    """Return whether calls need no work in Python: no stores into objects, no keyword-only names, no facts to check, no
    room that may be too small."""
    captured = program.captured
    if captured.effects or captured.facts or captured.rooms:
        return False
    return not any(n.startswith("=") for n in program.signature.names)


def _compile_numpy(program: Program, cache: Cache, options: Options) -> Specialization:
    function = program.function
    interface = function.interface
    assert interface is not None
    flat_function = Function(function.name, function.body, _flat_interface(function))
    flat = _load_with_lines(flat_function)
    spec = _spec(program, kernel=False)
    direct = None
    plain = not program.weak and not program.write_back and _is_plain(program.tree)
    if plain and spec.is_direct() and _is_direct(program):
        target = _load_with_lines(function)
        direct = build_executable(spec, target=target, cache=cache, options=options)
    return Specialization(program, "numpy", flat, spec, direct)


def _load_with_lines(function: Function) -> Callable[..., Any]:
    def load() -> tuple[Callable[..., Any], str]:
        text = codegen.emit_numpy(function)
        return load_python(text, function.name), text

    return with_user_lines(load, _places(lambda: function))


def _places(function: Callable[[], Function]) -> Places:
    """Return the places of the operations of a function, and of those that it calls."""

    def operations() -> Iterator[tuple[Span, str]]:
        waiting = [function()]
        for caller in waiting:
            for operation in walk(caller.body):
                callee = operation.attrs.get("function")
                if isinstance(callee, Function) and callee not in waiting:
                    waiting.append(callee)
                if operation.span is not None:
                    yield operation.span, error_name(operation)

    return Places(operations)


def _flat_interface(function: Function) -> Interface:
    names = tuple(f"input_{i}" for i in range(len(function.params)))
    results = "".join(f"{{{i}}}, " for i in range(len(function.results)))
    return Interface(names, names, f"({results})")


def _is_plain(tree: Tree) -> bool:
    return tree.kind in ("leaf", "none", "tuple", "list", "dict") and all(_is_plain(c) for c in tree.children)


def _flat(spec: ExecutableSpec) -> ExecutableSpec:
    tree = Tree("tuple", None, tuple(Tree("leaf", i, ()) for i in range(len(spec.results))))
    return dataclasses.replace(spec.flat(), result=tree)


def _spec(program: Program, *, kernel: bool) -> ExecutableSpec:
    signature, captured = program.signature, program.captured
    first = len(signature.leaves)
    sources = [Source(tree, place.base, steps=place.steps) for place, tree in _guard_trees(captured, first)]
    for number, content in captured.contents.items():
        position, steps = _leaf_place(signature, number)
        kept: Any = (bytes, content)
        method = "tobytes"
        if signature.leaves[number].kind == "float":
            kept, method = (str, float(np.frombuffer(content)[0]).hex()), "hex"
        tree = Tree("static", kept, ())
        sources.append(Source(tree, argument=position, steps=(*steps, ("attribute", method), ("call", None))))
    for number, hidden in enumerate(captured.hidden):
        tree = Tree("leaf", first + number, ())
        sources.append(Source(tree, hidden.place.base, steps=hidden.place.steps, passed=True))
    return ExecutableSpec(
        names=signature.names,
        arguments=signature.arguments,
        inputs=program.inputs,
        results=program.results,
        result=program.tree,
        sources=tuple(sources),
        write_back=program.write_back if kernel else {},
        minimums=dict.fromkeys(size_symbols(signature), SMALLEST),
        python_results=program.weak,
        owner=program.owner,
    )


def _leaf_place(signature: Signature, number: int) -> tuple[int, tuple[tuple[str, Any], ...]]:
    """Return the position of the argument that holds a leaf, and the steps to it."""
    for position, tree in enumerate(signature.arguments):
        for steps, node in _walk_steps(tree, ()):
            if node.kind == "leaf" and node.data == number:
                return position, steps
    raise AssertionError("every leaf is in an argument")


def _walk_steps(tree: Tree, steps: tuple[tuple[str, Any], ...]) -> Iterator[tuple[tuple[tuple[str, Any], ...], Tree]]:
    yield steps, tree
    kind = "attribute" if tree.kind == "object" else "item"
    keys: Sequence[Any] = range(len(tree.children))
    if tree.kind in ("dict", "object"):
        keys = tree.data if tree.kind == "dict" else tree.data[1]
    for key, child in zip(keys, tree.children, strict=True):
        yield from _walk_steps(child, (*steps, (kind, key)))


def size_symbols(signature: Signature) -> list[str]:
    """Return the size symbols in the leaves of a signature, in order of occurrence."""
    dims = [dim for leaf in signature.leaves for dim in leaf.type.shape]
    return list(dict.fromkeys(name for dim in dims for name in sorted(dim_symbols(dim))))


def _guard_trees(captured: Captured, first: int) -> list[tuple[Place, Tree]]:
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
        return _static(value)
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
