"""Functions that cannot be captured, called from compiled code: `pure_callback`, with a rule for their derivative.

Stages the op `callback` (ops/callbacks.py), inside a function with a rule (custom.py) when one is given.
Previous: differences.py; next: explanation.py.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from types import CodeType, FunctionType
from typing import Any, Final

import numpy as np
import optree

from tracegrad.capture import context
from tracegrad.capture.chosen import Chosen
from tracegrad.capture.context import user_span
from tracegrad.capture.entry import Result, Static
from tracegrad.capture.nodes import HOOKS
from tracegrad.capture.ragged import Ragged
from tracegrad.capture.source import code_span
from tracegrad.capture.state import Unsure, flatten
from tracegrad.capture.tracer import MaybeNone, Tracer, asarray, from_value, is_traced
from tracegrad.capture.trees import LEAF
from tracegrad.capture.trees import Tree as Structure
from tracegrad.custom import custom_jvp, place_of
from tracegrad.differences import central_differences, complex_steps
from tracegrad.driver.trees import runtime_tree
from tracegrad.errors import ArgumentError, ArgumentTypeError, CaptureError
from tracegrad.ir.types import ArrayType, array_type, is_complex, is_float
from tracegrad.ops.callbacks import as_declared, callback_name, declared_texts, misfit
from tracegrad.runtime.signature import NAMESPACE, Tree, unflatten

#: numeric rules
RULES: Final = ("finite-difference", "complex-step")

_noted: ContextVar[list[Any] | None] = ContextVar("noted", default=None)


@contextlib.contextmanager
def noting_complex_steps() -> Iterator[list[Any]]:
    """Collect the functions that `pure_callback` calls outside of captures and whose rule is a complex step."""
    functions: list[Any] = []
    token = _noted.set(functions)
    try:
        yield functions
    finally:
        _noted.reset(token)


def pure_callback(fn: Callable[..., Any], result: Any, *args: Any, rule: Any = None) -> Any:
    """Call a Python function from compiled code, as it is, with the values at run time.

    Args:
        fn: a function of arrays without effects, which cannot be captured or need not be. The NumPy backend alone
            can call it.
        result: what it returns: a type such as "f64[3]", an array of that shape and dtype, or a tuple, list or dict of
            these.
        args: what `fn` takes: arrays and floats, dicts, lists, tuples and dataclasses of them, and values that are
            fixed in the compiled code, such as ints and strings. `fn` gets them as they are, arrays read-only.
        rule: its derivative. None: it has none, and asking for one is an error. A function
            `rule(primals, tangents) -> (out, t_out)` as for `custom_jvp`. "finite-difference": central differences of
            `fn`, two calls per input element, about two thirds of the digits; "complex-step": one call with a complex
            argument per input element and two more calls, full precision, for functions of real numbers that are
            analytic and take complex ones; one that does not is refused when it is called (TG235).

    >>> from tracegrad import grad
    >>> f = lambda x: pure_callback(np.sin, "f64[]", x, rule="complex-step")
    >>> float(grad(f)(0.0))
    1.0
    """
    if rule is not None and rule not in RULES and not callable(rule):
        raise ArgumentError(
            "there is no such rule for a callback",
            code="TG239",
            span=user_span(),
            found=f"rule={rule!r}",
            help=f"choose one of {', '.join(map(repr, RULES))}, or give a function (primals, tangents) -> (out, t_out)",
        )
    leaves, tree = optree.tree_flatten(_plain(result), namespace=NAMESPACE)
    kinds = tuple(_kind(leaf) for leaf in leaves)
    if not context.is_capturing() or not is_traced(args):
        noted = _noted.get()
        if noted is not None and rule == "complex-step":
            noted.append(fn)
        return fn(*args)
    plain = _as_written(fn)
    flat = _flat(plain, tree)
    if rule is None:
        text = f"{_name(fn)}: run by Python, without a derivative"
        context.current().events.append((user_span(), text))
        return tree.unflatten(_stage(flat, kinds, "", *args))
    key = (_identity(fn), _identity(rule), kinds, tree)
    opened = (o.owner for o in reversed(context.current().opened))
    made = next((owner for owner in opened if isinstance(owner, _Callback) and owner.key == key), None)
    if made is None:
        made = _Callback(plain, flat, kinds, tree, key)
        made.defjvp(rule if callable(rule) else functools.partial(_numeric_rule, flat, kinds, tree, rule, made))
    return made(*args)


def _plain(result: Any) -> Any:
    """Return a declared result with Python's own lists for those of captured code."""
    if isinstance(result, dict):
        return {key: _plain(part) for key, part in result.items()}
    if isinstance(result, list) or type(result) is tuple:
        return (list if isinstance(result, list) else tuple)(_plain(part) for part in result)
    return result


def _as_written(function: Any) -> Any:
    """Return a function that captured code defines without the hooks in it, to be run outside of the capture."""
    code = getattr(function, "__code__", None)
    if code is None or HOOKS not in code.co_freevars:
        return function
    running = [call.function.__code__ for call in context.current().calls if isinstance(call.function, FunctionType)]
    cells = dict(zip(code.co_freevars, function.__closure__, strict=True))
    found = {
        nested
        for nested in _nested(running)
        if (nested.co_name, nested.co_firstlineno, nested.co_varnames[: nested.co_argcount])
        == (code.co_name, code.co_firstlineno, code.co_varnames[: code.co_argcount])
        and HOOKS not in nested.co_freevars
        and cells.keys() >= set(nested.co_freevars)
    }
    if len(found) > 1:  # on one line: the converted code has the places of the text
        place = code_span(code)
        found = {nested for nested in found if place is not None and code_span(nested) == place}
    if len(found) != 1:
        return function
    (plain,) = found
    traced = [name for name in plain.co_freevars if is_traced(_content(cells[name]))]
    if traced:
        raise CaptureError(
            "a traced value is used outside the call that made it",
            code="TG129",
            span=user_span(),
            found=f"{traced[0]}, which the callback {_name(function)} reads from the function around it",
            help=f"pass it as an argument: tg.pure_callback(fn, result, ..., {traced[0]})",
        )
    closure = tuple(cells[name] for name in plain.co_freevars)
    made = FunctionType(plain, function.__globals__, function.__name__, function.__defaults__, closure)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _nested(codes: Iterable[CodeType]) -> Iterator[CodeType]:
    for code in codes:
        inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
        yield from inner
        yield from _nested(inner)


class _Callback(custom_jvp):
    """A callback with a rule. The rule may call it: a callback with the same key is the same one."""

    def __init__(
        self, plain: Callable[..., Any], flat: Callable[..., Any], kinds: Sequence[ArrayType], tree: Any, key: Any
    ) -> None:
        def wrapped(*values: Any) -> Any:
            return tree.unflatten(_stage(flat, kinds, "", *values)) if context.is_capturing() else plain(*values)

        wrapped.__name__ = _name(flat)
        super().__init__(wrapped)
        self.key = key

    def _explained(self) -> str:
        rule = self.key[1]
        told = f"by {rule}" if isinstance(rule, str) else f"is what its rule says{place_of(self._rules[-1])}"
        return f"run by Python, its derivative {told}"


def _identity(function: Any) -> Any:
    """Return what a function has in common with others made by the same code from the same values."""
    if not isinstance(function, FunctionType):
        return function if isinstance(function, str) else id(function)
    cells = tuple(id(_content(cell)) for cell in function.__closure__ or ())
    return function.__code__, cells, id(function.__globals__), tuple(map(id, function.__defaults__ or ()))


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # the name is not bound yet
        return None


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", "callback")).strip("<>")


@functools.lru_cache(maxsize=256)
def _flat(fn: Callable[..., Any], tree: Any) -> Callable[..., Any]:
    """Return the function that gives the arrays of the result in a tuple; one alone by itself."""
    if tree.num_nodes == 1 or (tree.type in (tuple, list) and tree.num_nodes == tree.num_leaves + 1 > 2):
        return fn

    def flat(*args: Any) -> Any:
        returned = fn(*args)
        try:
            found = tree.flatten_up_to(returned)
        except ValueError as error:
            raise misfit(_name(fn), str(error).splitlines()[0]) from None
        return found[0] if len(found) == 1 else tuple(found)

    flat.__name__ = _name(fn)
    return flat


def _kind(result: Any) -> ArrayType:
    if isinstance(result, ArrayType):
        return result
    if isinstance(result, str):
        return array_type(result)
    if isinstance(result, Tracer):
        return result.type
    array = np.asarray(result)
    if array.dtype.kind not in "biufc":
        raise ArgumentTypeError(
            "this says no type of a callback's result",
            code="TG238",
            span=user_span(),
            found=f"{type(result).__name__} {result!r}"[:120],
            help='write a type such as "f64[3]", an array, or a tuple, list or dict of these',
        )
    return ArrayType(array.dtype, array.shape)


def _stage(fn: Callable[..., Any], kinds: Sequence[ArrayType], label: str, *args: Any) -> tuple[Any, ...]:
    """Stage a call; return its results."""
    function, leaves = _on_leaves(fn, args)
    attrs = {"name": callback_name(function, label), "results": tuple(kinds)}
    builder, operands = context.current().builder, [asarray(leaf).value for leaf in leaves]
    builder.span = user_span()
    operation = builder.append("callback", operands, attrs, [], list(kinds))
    builder.span = None
    return tuple(from_value(value) for value in operation.results)


def _on_leaves(fn: Callable[..., Any], args: Sequence[Any]) -> tuple[Callable[..., Any], list[Any]]:
    """Return a function of the arrays and floats in some arguments that calls `fn` with such arguments, and these."""
    leaves: list[Any] = []
    trees = []
    for arg in args:
        own, structure = _flatten(arg)
        numbers: list[Any] = []
        for leaf in own:
            if _is_operand(leaf):
                numbers.append(len(leaves))
                leaves.append(leaf)
            else:
                numbers.append(Static(leaf))
        trees.append(runtime_tree(Result(structure, tuple(numbers), (False,) * len(numbers)))[0])
    if all(tree.kind == "leaf" for tree in trees):
        return fn, leaves
    return _with_structure(fn, tuple(trees)), leaves


def _flatten(arg: Any) -> tuple[list[Any], Structure]:
    leaves, structure = flatten(arg)
    return ([arg], LEAF) if _is_partial(structure) else (leaves, structure)


def _is_partial(structure: Structure) -> bool:
    """Return whether a structure has parts that only captured code has."""
    return structure.kind in (Chosen, MaybeNone, Unsure, Ragged) or any(map(_is_partial, structure.children))


def _is_operand(leaf: Any) -> bool:
    return isinstance(leaf, np.ndarray | np.generic | float | complex) or is_traced(leaf)


@functools.lru_cache(maxsize=256)
def _with_structure(fn: Callable[..., Any], trees: tuple[Tree, ...]) -> Callable[..., Any]:
    def call(*leaves: Any) -> Any:
        return fn(*(unflatten(tree, leaves) for tree in trees))

    call.__name__ = _name(fn)
    return call


def _numeric_rule(
    fn: Callable[..., Any],
    kinds: Sequence[ArrayType],
    tree: Any,
    rule: str,
    call: Callable[..., Any],
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
) -> tuple[Any, Any]:
    """Multiply a Jacobian, computed at run time, with the tangents."""
    out = call(*primals)
    function, leaves = _on_leaves(fn, primals)
    given = [t for p, x in zip(primals, tangents, strict=True) for t in _tangents_of(p, x)]
    types = {i: asarray(leaves[i]).type for i, t in enumerate(given) if t is not None}
    smooth = tuple(k for k, kind in enumerate(kinds) if _is_smooth(kind))
    if rule == "complex-step":
        _check_real(fn, [*types.values(), *(kinds[k] for k in smooth)])
    units = {i: (1, 1j) if is_complex(kind.dtype) else (1,) for i, kind in types.items()}
    moving = tuple((i, unit) for i in types for unit in units[i])
    moves = [
        given[i] if len(units[i]) == 1 else np.real(given[i]) if unit == 1 else np.imag(given[i]) for i, unit in moving
    ]
    blocks = [ArrayType(kinds[k].dtype, (*kinds[k].shape, *types[i].shape)) for k in smooth for i, _ in moving]
    label = f"{rule.replace('-', '_')}_of_{_name(fn)}"
    jacobian = iter(_stage(_jacobian_of(function, rule, moving, smooth, declared_texts(kinds)), blocks, label, *leaves))
    moved: list[Any] = []
    for k in range(len(kinds)):
        if k not in smooth:
            moved.append(None)
            continue
        terms = [np.tensordot(next(jacobian), t, types[i].ndim) for (i, _), t in zip(moving, moves, strict=True)]
        moved.append(functools.reduce(lambda a, b: a + b, terms))
    return out, tree.unflatten(moved)


def _check_real(fn: Callable[..., Any], types: Iterable[ArrayType]) -> None:
    found = next((kind for kind in types if is_complex(kind.dtype)), None)
    if found is not None:
        raise ArgumentTypeError(
            "a complex step is for real arguments and results",
            code="TG235",
            span=user_span(),
            found=f"{found} in a callback of {_name(fn)}",
            help='write rule="finite-difference"',
        )


def _tangents_of(primal: Any, tangent: Any) -> list[Any]:
    """Return the tangents of the arrays and floats in an argument."""
    pairs = zip(_flatten(primal)[0], _flatten(tangent)[0], strict=True)
    return [t for leaf, t in pairs if _is_operand(leaf)]


def _is_smooth(kind: ArrayType) -> bool:
    return is_float(kind.dtype) or is_complex(kind.dtype)


@functools.lru_cache(maxsize=256)
def _jacobian_of(
    fn: Callable[..., Any],
    rule: str,
    moving: tuple[tuple[int, complex], ...],
    smooth: tuple[int, ...],
    results: tuple[str, ...],
) -> Callable[..., Any]:
    """Return the function that computes the Jacobian of each float result by each of some arguments or their parts."""

    def values(*args: Any) -> list[Any]:
        found = as_declared(_name(fn), fn(*args), results, is_complex=rule == "complex-step")
        return [found[k][0] for k in smooth]

    def jacobian(*args: Any) -> Any:
        if rule == "complex-step":
            columns = complex_steps(values, args, [number for number, _ in moving], _name(fn))
        else:
            columns = [central_differences(values, args, number, unit) for number, unit in moving]
        blocks = tuple(column[k] for k in range(len(smooth)) for column in columns)
        return blocks[0] if len(blocks) == 1 else blocks

    return jacobian
