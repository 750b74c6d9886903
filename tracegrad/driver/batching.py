"""What `tg.vmap` does while a function is captured: captures the function of one element, and stages it for all.

Reads arguments and axes; stages IR into the capture in progress. Previous: pipeline.py; next: api.py.

Called outside a capture, a batched function is captured like any other, so that this is the only way in; nesting, and
transforms of and in a batched function need nothing more.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tracegrad import ops
from tracegrad.capture.calls import call
from tracegrad.capture.changes import changes_of, stored_at
from tracegrad.capture.context import Frame, Storage, current, user_span
from tracegrad.capture.entry import function_name, leaf_name
from tracegrad.capture.joins import leave_branch
from tracegrad.capture.lists import RecordList, StackedList
from tracegrad.capture.sharing import passing
from tracegrad.capture.slots import new_list
from tracegrad.capture.state import Undefined, flatten, has_changed, kind_name, unflatten
from tracegrad.capture.tracer import Tracer, asarray, from_value, is_traced
from tracegrad.capture.trees import Tree, is_mapping
from tracegrad.driver.inner_gradients import hoist_stacks
from tracegrad.driver.pipeline import target_backend
from tracegrad.driver.trees import call_arguments
from tracegrad.errors import (
    ArgumentError,
    CaptureError,
    ShapeError,
    Span,
    TracedIndexError,
    TracedValueError,
    TracegradError,
)
from tracegrad.ir.core import Block, Function, Value
from tracegrad.ir.types import ArrayType, Dim
from tracegrad.runtime.signature import settings_of
from tracegrad.transform.batch import Batched, batch

#: names and values of the arguments of a call
Bind = Callable[[tuple[Any, ...], dict[str, Any]], tuple[list[str], list[Any]]]


class Batch:
    """A function applied to each element of batched arguments. It is called by captured code only.

    Args:
        bind: see api.bind.
        defaults: names of the parameters that have a default.
    """

    __tracegrad__ = True

    def __init__(
        self, function: Callable[..., Any], in_axes: Any, out_axes: Any, bind: Bind, defaults: frozenset[str]
    ) -> None:
        functools.update_wrapper(self, function, ("__doc__",), ())
        self.__name__ = f"{function_name(function)}_vmap"
        self._function, self._in_axes, self._out_axes = function, in_axes, out_axes
        self._bind, self._defaults = bind, defaults

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Stage the function for all elements."""
        names, values = self._bind(args, kwargs)
        plain = [n.lstrip("=") for n in names]
        specs = _per_argument(self._in_axes, plain, self._defaults)
        exact = isinstance(self._in_axes, tuple | list)
        arguments = [
            _Argument.make(name, value, spec, exact) for name, value, spec in zip(plain, values, specs, strict=True)
        ]
        size = _common_size(arguments, self._in_axes)
        made, tree, static, written = self._capture(names, arguments, size)
        hoist_stacks(made.function, current().top)
        outer = [leaf.tracer.value for argument in arguments for leaf in argument.leaves if leaf.axis is not None]
        staged = current().builder.inline(made.function.body, outer)
        leaves = list(static)
        held = iter([leaf is _ARRAY for leaf in static])
        places = _places_of(tree, held, self._out_axes, "out_axes", "the result")
        results = zip(made.results, staged, strict=True)
        for position, leaf in enumerate(static):
            if leaf is _ARRAY:
                has, value = next(results)
                place = places[position]
                axis = place.given if has and place.is_setting else place.axis
                leaves[position] = from_value(_placed(value, has, axis, size))
        for leaf, (has, value) in zip(written, results, strict=True):
            assert leaf.axis is not None, "only batched arguments have stand-ins"
            leaf.tracer.assign(_placed(value, has, leaf.axis, size))
        return unflatten(tree, leaves, new_list)

    def _capture(
        self, names: Sequence[str], arguments: Sequence[_Argument], size: Dim
    ) -> tuple[Batched, Tree, list[Any], list[_Leaf]]:
        """Capture the function of one element and batch it.

        Returns:
            The batched function; structure and leaves of what it returned, `_ARRAY` for each array; the arguments it
            wrote into, whose final content are the last results.
        """
        block = Block()
        with current().open("branch", block, repeats=True) as frame:
            inner = [argument.element(block) for argument in arguments]
            args, kwargs = call_arguments(names, [element for element, _ in inner])
            batched = [leaf for argument in arguments for leaf in argument.leaves if leaf.axis is not None]
            with passing([(leaf.stand_in, leaf.tracer) for leaf in batched if leaf.stand_in is not None]):
                returned, tree = flatten(self._run(args, kwargs, batched))
                block.yields = [asarray(leaf).value for leaf in returned if _is_array(leaf)]
                written = [leaf for leaf in batched if leaf.is_written()]
                block.yields += [leaf.stand_in.value for leaf in written if leaf.stand_in is not None]
            static = [_ARRAY if _is_array(leaf) else leaf for leaf in returned]
            trees = [argument.tree for argument in arguments]
            changes = changes_of(frame)
            places = [change.span for change in changes]
            if any(has_changed(*given, tree) for given, tree in zip(inner, trees, strict=True)):
                places.append(stored_at(frame, [value for value, _ in inner]))
            places += [leaf.written_at(frame) for leaf in written if not leaf.is_shared]
        places += [frame.places.get(storage) for storage in leave_branch(frame)]
        if places:
            what = changes[0].label if changes else "an array, container or object that all elements share"
            raise CaptureError(
                "a function under vmap writes into something from outside",
                code="TG225",
                span=places[0] or user_span(),
                found=f"a store in {self.__name__.removesuffix('_vmap')} into {what}",
                help="return the new values instead",
            )
        function = Function(self.__name__.removesuffix("_vmap"), block)
        axes, loop = [leaf.axis for leaf in batched], target_backend.get() == "c"
        unfinished = {f for opened in current().opened for f in opened.functions}
        return batch(function, axes, size, loop=loop, unfinished=unfinished), tree, static, written

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any], batched: Sequence[_Leaf]) -> Any:
        """Call the function; what NumPy refuses in it says that the elements have an axis less."""
        try:
            return call(self._function, *args, **kwargs)
        except TracegradError as error:
            refused = error.code == "TG138" or isinstance(error, TracedValueError | TracedIndexError | ShapeError)
            if refused and batched:
                taken = ", ".join(f"axis {leaf.axis} of {leaf.path}" for leaf in batched)
                error.explain(
                    f"vmap calls {self.__name__.removesuffix('_vmap')} with one element at a time, without {taken}",
                    "correct the call for one element, which NumPy refuses too; or give arguments that are the same "
                    "for all elements the axis None (in_axes, or --wrt with the names of the others)",
                )
            raise


_ARRAY = object()


@dataclass(slots=True)
class _Leaf:
    """A leaf of an argument: its axis, or None when it is the same for all elements.

    Attributes:
        tracer: the array of all elements; only where there is an axis.
        is_shared: whether the caller sees what is written into it.
        stand_in: the element, in the function.
    """

    value: Any
    path: str
    axis: int | None
    tracer: Any = None
    is_shared: bool = False
    stand_in: Tracer | None = None
    param: Value | None = None

    @property
    def size(self) -> Dim:
        size: Dim = self.tracer.type.shape[self.axis]
        return size

    def is_written(self) -> bool:
        return self.stand_in is not None and self.stand_in._storage.value is not self.param

    def written_at(self, frame: Frame) -> Span | None:
        """Return where the function, captured in `frame`, writes into the element."""
        return None if self.stand_in is None else frame.places.get(self.stand_in._storage)


@dataclass(slots=True)
class _Argument:
    tree: Tree
    leaves: list[_Leaf]

    @staticmethod
    def make(name: str, value: Any, spec: Any, exact: bool) -> _Argument:
        """Find the axis of each leaf of an argument.

        Args:
            exact: the axes are given for each argument, so that a Python number with an axis is an error.
        """
        leaves, tree = flatten(value)
        found = []
        held = iter([_is_array(leaf) for leaf in leaves])
        for leaf, place in zip(leaves, _places_of(tree, held, spec, "in_axes", name), strict=True):
            axis, path = place.axis, place.path
            tracer = asarray(leaf) if axis is not None else None
            if tracer is None or (tracer.weak and not exact):
                found.append(_Leaf(leaf, path, None))
                continue
            ndim = tracer.type.ndim
            assert axis is not None, "a leaf with a tracer has an axis"
            if not -ndim <= axis < ndim:
                raise _axis_error(f"axis {axis} for {path}: {tracer.type}", ndim)
            found.append(_Leaf(leaf, path, axis % ndim, tracer, isinstance(leaf, Tracer)))
        return _Argument(tree, found)

    def element(self, block: Block) -> tuple[Any, list[Any]]:
        """Return the argument for one element, whose batched leaves are parameters of the block, and its leaves."""
        values: list[Any] = []
        for leaf in self.leaves:
            if leaf.axis is None:
                values.append(leaf.value)
                continue
            shape = leaf.tracer.type.shape
            kind = ArrayType(leaf.tracer.dtype, (*shape[: leaf.axis], *shape[leaf.axis + 1 :]))
            leaf.param = Value(kind, leaf_name(leaf.path))
            leaf.stand_in = Tracer(Storage(kind, current().depth, leaf.param))
            block.params.append(leaf.param)
            values.append(leaf.stand_in)
        return unflatten(self.tree, values), values  # a store into one of its lists is one into something from outside


def _is_array(leaf: Any) -> bool:
    if isinstance(leaf, Undefined):
        raise leaf.error()
    return isinstance(leaf, Tracer | np.ndarray | np.generic | float | complex | int) or is_traced(leaf)


def _per_argument(in_axes: Any, names: Sequence[str], defaults: frozenset[str]) -> list[Any]:
    """Return what `in_axes` says for each argument; arguments left out have a default, and no axis."""
    if in_axes is None or isinstance(in_axes, int):
        return [in_axes] * len(names)
    if not isinstance(in_axes, tuple | list):
        raise _misfit(f"in_axes={in_axes!r}", "give an int, None, or a tuple with one entry per argument")
    missing = [name for name in names[len(in_axes) :] if name not in defaults]
    if len(in_axes) > len(names) or missing:
        raise _misfit(
            f"in_axes={in_axes!r} for the arguments ({', '.join(names)})", "give a tuple with one entry per argument"
        )
    return [*in_axes, *[None] * (len(names) - len(in_axes))]


class _Place(NamedTuple):
    """What is said of a leaf.

    Attributes:
        given: the axis; None also for a leaf that is no array.
        is_setting: whether it stands in a field declared `int` or `bool`.
    """

    given: int | None
    path: str
    is_setting: bool

    @property
    def axis(self) -> int | None:
        return None if self.is_setting else self.given


def _places_of(
    tree: Tree, held: Iterator[bool], spec: Any, name: str, path: str, is_setting: bool = False
) -> list[_Place]:
    """Return the place of each leaf; an axis stands for everything below it.

    What is given for leaves that are no arrays is not read. Leaves of a list filled in a loop are stacked along an axis
    of their own, which stays in front.

    Args:
        held: whether each leaf is an array.
    """
    is_axis = spec is None or (isinstance(spec, int) and not isinstance(spec, bool))
    if tree.kind is None and not (next(held) and (is_axis or not is_setting)):
        return [_Place(None, path, is_setting)]
    if tree.kind is None and is_axis:
        return [_Place(spec, path, is_setting)]
    if is_axis and (tree.kind is StackedList or tree.kind is RecordList):
        kinds = [tree.data[0]] if tree.kind is StackedList else tree.data[0].fields
        axes = [spec if spec is None or spec < 0 else spec + 1 + kind.nested for kind in kinds if next(held)]
        return [_Place(axis, path, is_setting) for axis in axes]
    if is_axis:
        specs = [spec] * len(tree.children)
    elif is_mapping(tree):
        if not isinstance(spec, dict) or set(spec) != set(tree.data):
            raise _misfit(f"{name}: {spec!r} for {path}, a dict with keys {list(tree.data)}", _SAME)
        specs = [spec[key] for key in tree.data]
    elif tree.kind in (None, StackedList, RecordList):
        raise _misfit(f"{name}: {spec!r} for {path}", _SAME)
    elif isinstance(spec, tuple | list):
        if len(spec) != len(tree.children):
            raise _misfit(f"{name}: {spec!r} for {path}, which has {len(tree.children)} parts", _SAME)
        specs = list(spec)
    elif type(spec) is tree.kind:
        specs = [getattr(spec, field) for field in tree.data]
    else:
        raise _misfit(f"{name}: {spec!r} for {path}", _SAME)
    settings = settings_of(tree.kind)
    found = []
    for key, child, part in zip(_keys(tree), tree.children, specs, strict=True):
        inside = is_setting or key[1:] in settings
        found.extend(_places_of(child, held, part, name, path + key, inside))
    return found


_SAME = "give an int or None for the whole, or the same structure with an int or None for each array"


def _keys(tree: Tree) -> list[str]:
    if is_mapping(tree):
        return [f"[{key!r}]" for key in tree.data]
    fields = tree.data if isinstance(tree.data, tuple) else getattr(tree.kind, "_fields", None)
    if fields is not None:
        return [f".{field}" for field in fields]
    return [f"[{k}]" for k in range(len(tree.children))]


def _common_size(arguments: Sequence[_Argument], in_axes: Any) -> Dim:
    leaves = [leaf for argument in arguments for leaf in argument.leaves]
    batched = [leaf for leaf in leaves if leaf.axis is not None]
    if not batched:
        every = ", ".join(f"{leaf.path}: {_kind(leaf.value)}" for leaf in leaves)
        raise ArgumentError(
            "nothing is batched: no argument has elements to go through",
            code="TG221",
            span=user_span(),
            found=f"in_axes={in_axes!r} and {every or 'no arguments'}",
            help="pass at least one array, and give its axis in in_axes",
        )
    if any(leaf.size != batched[0].size for leaf in batched):
        raise ArgumentError(
            "the batched arguments have different numbers of elements",
            code="TG223",
            span=user_span(),
            found=", ".join(f"{leaf.path}: {leaf.size} (axis {leaf.axis} of {leaf.tracer.type})" for leaf in batched),
            help="make the sizes equal; in_axes=None for an argument that is the same for all elements",
        )
    return batched[0].size


def _kind(value: Any) -> str:
    if isinstance(value, Tracer | np.ndarray):
        return "a Python number" if isinstance(value, Tracer) and value.weak else str(asarray(value).type)
    return kind_name(type(value))


def _placed(value: Value, has: bool, axis: int | None, size: Dim) -> Value:
    """Move the new axis of a result from the front to its place; a result without one is repeated."""
    if axis is None:
        if has:
            raise ArgumentError(
                "out_axes says that a result is the same for all elements, but it depends on the element",
                code="TG224",
                span=user_span(),
                found=f"out_axes=None for {value.array_type}, of which axis 0 counts the elements",
                help="give the axis for this result in out_axes, or reduce it after vmap",
            )
        return value
    lifted: Value = value if has else ops.lift(size, (False,), (value,))[0]
    ndim = lifted.array_type.ndim
    if not -ndim <= axis < ndim:
        raise _axis_error(f"out_axes: axis {axis} for a result of {ndim} axes", ndim)
    if axis % ndim == 0:
        return lifted
    order = list(range(1, ndim))
    order.insert(axis % ndim, 0)
    moved: Value = ops.transpose(lifted, axes=tuple(order))
    return moved


def _axis_error(found: str, ndim: int) -> ArgumentError:
    number = "in_axes=None for a number; for one in a structure, the same structure with None in its place"
    choice = f"choose an axis from {-ndim} to {ndim - 1}" if ndim else number
    return ArgumentError("vmap: there is no such axis", code="TG222", span=user_span(), found=found, help=choice)


def _misfit(found: str, help: str) -> ArgumentError:
    return ArgumentError(
        "in_axes and out_axes must fit the arguments and results",
        code="TG220",
        span=user_span(),
        found=found,
        help=help,
    )
