"""Functions whose derivative the user says, `custom_vjp` and `custom_jvp`, or that are run again, `checkpoint`.

Called during capture they become one operation that holds the captured function and its rules; see
transform/vjp.py for what is made of it. Previous: api.py; next: target.py.
"""

from __future__ import annotations

import copy
import functools
import inspect
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np

from tracegrad.api import bind, global_name, parameters_of
from tracegrad.capture import context
from tracegrad.capture.calls import call
from tracegrad.capture.context import Place, current, user_span
from tracegrad.capture.entry import Result, Static, collect, collect_leaves
from tracegrad.capture.functions import (
    Arguments,
    Body,
    Opened,
    Runs,
    close_functions,
    fill_function,
    find_opened,
    join_results,
    join_shared,
    new_function,
    split_arguments,
)
from tracegrad.capture.guards import lift
from tracegrad.capture.sharing import passing
from tracegrad.capture.state import flatten, kind_name
from tracegrad.capture.tracer import Tracer, asarray, call_handler, cast_to, from_value
from tracegrad.capture.trees import Tree
from tracegrad.driver.trees import call_arguments
from tracegrad.errors import ArgumentError, ArgumentTypeError
from tracegrad.ir.core import Function, Operation, Value
from tracegrad.ir.types import ArrayType, is_complex, is_inexact
from tracegrad.ops import full
from tracegrad.transform.linearity import find_nonlinear

F = TypeVar("F", bound=Callable[..., Any])

#: numbers that a result holds as they are
_INTEGERS = int | np.integer | np.bool_


class _Wrapped(ABC):
    """A function that captured code treats in a way of its own; call it like the function."""

    __tracegrad__ = True

    def __init__(self, function: Callable[..., Any] | None = None, /, *others: Any, **options: Any) -> None:
        if others or options:
            raise _refuse_options(type(self).__name__, function, others, options)
        _check_function(function, type(self).__name__)
        assert function is not None
        functools.update_wrapper(self, function, updated=())
        self._function = function
        self._name: str = getattr(function, "__name__", type(function).__name__)
        self._parameters = parameters_of(function)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Bind as a method does."""
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name}>"

    def __reduce__(self) -> Any:
        """Pickle under its own name where it stands in a module."""
        return global_name(self) or super().__reduce__()

    @abstractmethod
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function; in a capture, stage it."""


class checkpoint(_Wrapped):
    """Let reverse mode keep only the arguments of a function, and run it again for the cotangents.

    It costs a second run, and saves what reverse mode would keep of the first: in a loop, all values of each iteration.

    >>> f = checkpoint(lambda x: np.sin(np.exp(x)))
    >>> float(f(0.0)) == np.sin(1.0)
    True
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function; in a capture, as one operation."""
        if not context.is_capturing():
            return self._function(*args, **kwargs)
        names, values = bind(self._parameters, self._function, args, kwargs)
        arguments, span = split_arguments(values), user_span()
        opened = Opened(self, None, [new_function(self._name)])
        found: list[Result] = []
        writes: list[tuple[Tracer, int]] = []

        def run(body: Body) -> list[Value]:
            inner_args, inner_kwargs = call_arguments(names, body.arguments(arguments))
            results: list[Value] = []
            with passing(body.passed(arguments)):
                returned = call(self._function, *inner_args, **inner_kwargs)
                found.append(collect(returned, results))
                opened.shared = body.find_shared(flatten(returned)[0], found[-1])
                body.require_no_stores(self)
                for (argument, leaf), tracer in body.written().items():
                    writes.append((arguments.trees[argument][0][leaf], len(results)))
                    results.append(tracer.value)
            return results

        store = fill_function(opened.functions[0], run, self, Runs.ONCE)
        free = close_functions(opened)
        kinds = [v.type for v in opened.functions[0].results]
        attrs = {"function": opened.functions[0]}
        operation = Operation("checkpoint", [*arguments.operands, *free], attrs, [], kinds, span)
        current().builder.block.operations.append(operation)
        kept = dict.fromkeys(v.name or str(v.type) for v in operation.operands)
        text = f"{self._name}: reverse mode keeps {', '.join(kept) or 'nothing'} and runs it again"
        current().events.append((span, text))
        for array, number in writes:
            call_handler(operator.setitem, array, ..., from_value(operation.results[number]))
        store(operation.results)
        return join_shared(found[0], operation.results, arguments.trees, opened.shared)


def _refuse_options(kind: str, function: Any, others: Sequence[Any], options: Mapping[str, Any]) -> ArgumentTypeError:
    """Return the error for a function with a rule that is made with more than the function."""
    given = [getattr(function, "__name__", "f")] if function is not None else []
    given += [*map(_kind, others), *(f"{key}=..." for key in options)]
    text = f"write @tg.{kind} above the function, or tg.{kind}(f)"
    if kind != "checkpoint":
        text += (
            "; arguments that are no arrays, such as ints, strings and functions, are known to the rules as they are"
        )
        text += " without being named" + (", and None stands for their cotangent" if kind == "custom_vjp" else "")
    return ArgumentTypeError(
        f"tg.{kind} takes the function alone",
        code="TG213",
        span=user_span() if context.is_capturing() else None,
        found=f"tg.{kind}({', '.join(given)})",
        help=text,
    )


def _check_function(function: Any, kind: str) -> None:
    if not callable(function):
        raise ArgumentTypeError(
            f"tg.{kind} needs a function",
            code="TG207",
            span=None,
            found=f"{type(function).__name__} {function!r}"[:120],
            help=f"write @tg.{kind} above the function, or tg.{kind}(f)",
        )


@dataclass(frozen=True, slots=True)
class RuleCall:
    """A call of a function with a rule outside of a capture; arrays are copies."""

    function: Callable[..., Any]
    name: str
    names: tuple[str, ...]
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class RuleSite:
    """A call of a function with a rule in a capture."""

    function: Callable[..., Any]
    name: str
    names: tuple[str, ...]
    arguments: Arguments

    def call(self, operands: Sequence[Any]) -> RuleCall:
        """Return the call with these arrays for the traced parts of its arguments."""
        tracers = self.arguments.tracers
        given = [x.item() if t.weak else np.array(x)[()] for x, t in zip(operands, tracers, strict=True)]
        values = self.arguments.rebuild(given, _content, list)
        return RuleCall(self.function, self.name, self.names, copy.deepcopy(tuple(values)))


def _content(leaf: Any) -> Any:
    return leaf.concrete if isinstance(leaf, Tracer) else leaf


_noted: ContextVar[list[RuleCall] | None] = ContextVar("noted", default=None)
_sites: ContextVar[dict[Function, RuleSite] | None] = ContextVar("sites", default=None)


@contextmanager
def noting_calls() -> Iterator[list[RuleCall]]:
    """Note the calls of functions with rules outside of captures."""
    calls: list[RuleCall] = []
    token = _noted.set(calls)
    try:
        yield calls
    finally:
        _noted.reset(token)


@contextmanager
def noting_sites() -> Iterator[dict[Function, RuleSite]]:
    """Note the calls of functions with rules in captures, by the function of the IR that stands for each."""
    sites: dict[Function, RuleSite] = {}
    token = _sites.set(sites)
    try:
        yield sites
    finally:
        _sites.reset(token)


class _WithRule(_Wrapped):
    """A function with a rule."""

    _rules: tuple[Callable[..., Any], ...] = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not context.is_capturing():
            calls = _noted.get()
            if calls is not None and self._rules:
                names, values = bind(self._parameters, self._function, args, kwargs)
                calls.append(RuleCall(self, self._name, tuple(names), copy.deepcopy(tuple(values))))
            return self._function(*args, **kwargs)
        names, values = bind(self._parameters, self._function, args, kwargs)
        arguments = split_arguments(values)
        if not arguments.operands:
            return call(self._function, *args, **kwargs)
        if not self._rules:
            raise ArgumentError(
                f"{self._name} has no rule yet",
                code="TG230",
                span=user_span(),
                found=f"a call of a {type(self).__name__} function before its rule is defined",
                help=f"call {self._name}.{self._define} first",
            )
        return self._staged(names, arguments)

    _define = _op = ""

    def _staged(self, names: Sequence[str], arguments: Arguments) -> Any:
        """Stage the call."""
        capture, key = current(), arguments.key()
        opened = find_opened(self, key)
        if opened is not None and opened.result is None:  # the function itself recurs, not its rule
            args, kwargs = call_arguments(names, arguments.rebuild(arguments.tracers))
            return call(self._function, *args, **kwargs)
        span = user_span()
        if opened is not None and opened.result is not None:
            operation = self._operation(opened, arguments, span)
            return join_shared(opened.result, operation.results, arguments.trees, opened.shared)
        opened = Opened(self, key, [new_function(f"{self._name}{suffix}") for suffix in self._suffixes])
        sites = _sites.get()
        if sites is not None:
            sites[opened.functions[0]] = RuleSite(self, self._name, tuple(names), arguments)
        capture.opened.append(opened)
        try:
            opened.result, store = self._capture_primal(opened, names, arguments)
            self._capture_rules(opened, names, arguments, opened.result)
        finally:
            capture.opened.remove(opened)
        capture.events.append((span, f"{self._name}: {self._explained()}"))
        free = close_functions(opened)
        self._check_rules(opened, arguments)
        operation = self._operation(opened, arguments, span)
        operation.operands.extend(free)
        store(operation.results)
        return join_shared(opened.result, operation.results, arguments.trees, opened.shared)

    def _explained(self) -> str:
        """Say where the derivative comes from."""
        return f"its derivative is what its rule says{place_of(self._rules[-1])}"

    _suffixes: tuple[str, ...] = ()

    def _operation(self, opened: Opened, arguments: Arguments, span: Any) -> Operation:
        names = ("function", "forward", "backward") if len(opened.functions) == 3 else ("function", "rule")
        attrs = {**dict(zip(names, opened.functions, strict=True)), "arguments": len(arguments.operands)}
        outs = opened.functions[0].results[: opened.outs]
        operation = Operation(self._op, list(arguments.operands), attrs, [], [v.type for v in outs], span)
        for result, out in zip(operation.results, outs, strict=True):
            result.name = "" if out in opened.functions[0].params else out.name
        current().builder.block.operations.append(operation)
        return operation

    def _capture_primal(
        self, opened: Opened, names: Sequence[str], arguments: Arguments
    ) -> tuple[Result, Callable[[Sequence[Value]], None]]:
        found: list[Result] = []

        def run(body: Body) -> list[Value]:
            args, kwargs = call_arguments(names, body.arguments(arguments))
            results: list[Value] = []
            returned = call(self._function, *args, **kwargs)
            found.append(collect(returned, results))
            opened.shared = body.find_shared(flatten(returned)[0], found[0])
            body.require_unwritten(self)
            return results

        store = fill_function(opened.functions[0], run, self, Runs.ALONE)
        opened.outs = len(opened.functions[0].results)
        return found[0], store

    def _capture_rules(self, opened: Opened, names: Sequence[str], arguments: Arguments, result: Result) -> None:
        raise NotImplementedError

    def _check_rules(self, opened: Opened, arguments: Arguments) -> None:
        """Check what only captured rules show."""

    def _guarded_rules(self) -> tuple[Callable[..., Any], ...]:
        """Return the rules, noting that the capture relies on them."""
        rules: tuple[Callable[..., Any], ...] = lift(
            self._rules, Place(self, (("attribute", "_rules"),), f"the rule of {self._name}")
        )
        return rules

    def _call_rule(self, kind: str, rule: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call a rule, after a check of its parameters."""
        try:
            inspect.signature(rule).bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentTypeError(
                f"the {kind} of {self._name} does not take what it is given",
                code="TG231",
                span=user_span(),
                found=f"{getattr(rule, '__name__', kind)}{inspect.signature(rule)}: {error}",
                help=_HELP[kind],
            ) from None
        except ValueError:  # a function of C without a signature
            pass
        return call(rule, *args, **kwargs)

    def _aligned(self, opened: Opened, value: Any, result: Result, rule: str) -> list[Value]:
        """Return the flat results of a rule's first part, which must be like the function's own result."""
        wanted = opened.functions[0].results
        found: list[Value] = []
        leaves, tree = flatten(value)
        if tree == result.tree:  # a number that the rule knows may be computed by the function
            pairs = zip(leaves, result.leaves, strict=True)
            leaves = [x if isinstance(own, Static) or not isinstance(x, _INTEGERS) else asarray(x) for x, own in pairs]
        own = collect_leaves(leaves, tree, found)
        own_text, text = _shape_text(own, found), _shape_text(result, wanted)
        if own.tree != result.tree or [type(x) for x in own.leaves] != [type(x) for x in result.leaves]:
            self._refuse(rule, "another structure than the function", f"{own_text}; the function returns {text}")
        if any(a.shape != b.shape for a, b in zip(found, wanted, strict=True)):
            self._refuse(rule, "arrays of other shapes than the function", f"{own_text}; the function returns {text}")
        return [_cast(v, w.array_type, self, rule) for v, w in zip(found, wanted, strict=True)]

    def _refuse(self, rule: str, what: str, found: str) -> NoReturn:
        raise ArgumentTypeError(
            f"the {rule} of {self._name} returns {what}",
            code="TG231",
            span=user_span(),
            found=found,
            help=_HELP[rule],
        )


def place_of(rule: Callable[..., Any]) -> str:
    """Return the file and line of a rule, in words that end a sentence; "" where there are none."""
    code = getattr(inspect.unwrap(rule), "__code__", None)
    return "" if code is None else f", {Path(code.co_filename).name}:{code.co_firstlineno}"


_HELP = {
    "forward": "forward(*args) returns (out, residuals), and out is what the function returns",
    "backward": "backward(residuals, ct) returns a tuple with one cotangent per argument, of its structure and shapes;"
    " None is zero",
    "rule": "rule(primals, tangents) returns (out, t_out); both have the structure and shapes of the function's result,"
    " and None is a zero tangent",
}


class custom_vjp(_WithRule):
    """Give a function its own reverse-mode derivative.

    Forward mode follows from it too, by transposing `backward`, which is linear in the cotangent. The rule is captured
    code, so derivatives of any order can be taken.

    >>> @custom_vjp
    ... def clip_gradient(x, bound):
    ...     return x
    >>> clip_gradient.defvjp(lambda x, bound: (x, bound), lambda bound, ct: (np.clip(ct, -bound, bound), None))
    >>> clip_gradient(3.0, 1.0)
    3.0
    """

    _define, _op = "defvjp(forward, backward)", "custom_vjp"
    _suffixes = ("", "_forward", "_backward")

    def defvjp(self, forward: Callable[..., Any], backward: Callable[..., Any]) -> None:
        """Say the derivative.

        Args:
            forward: `forward(*args) -> (out, residuals)`, with the arguments of the function.
            backward: `backward(residuals, ct) -> tuple`: a cotangent per argument, of its structure and shapes; None is
                zero. `ct` has the structure of `out`, with None for what carries no derivative.
        """
        self._rules = (forward, backward)

    def _capture_rules(self, opened: Opened, names: Sequence[str], arguments: Arguments, result: Result) -> None:
        forward, backward = self._guarded_rules()
        residuals: list[Result] = []

        def run_forward(body: Body) -> list[Value]:
            args, kwargs = call_arguments(names, body.arguments(arguments))
            returned = self._call_rule("forward", forward, args, kwargs)
            if not isinstance(returned, tuple) or len(returned) != 2:
                self._refuse("forward", "no pair (out, residuals)", _kind(returned))
            outs = self._aligned(opened, returned[0], result, "forward")
            body.require_unwritten(forward)
            kept: list[Value] = []
            residuals.append(collect(returned[1], kept))
            return [*outs, *kept]

        fill_function(opened.functions[1], run_forward, forward, Runs.OFTEN)
        kept = opened.functions[1].results[opened.outs :]

        def run_backward(body: Body) -> list[Value]:
            own = residuals[0]

            def make(number: int, weak: bool) -> Tracer:
                return body.param(kept[number].array_type, kept[number].name, weak)

            rebuilt = join_results(own, kept, make)
            ct = _tangents(body, opened, result, "ct")
            returned = self._call_rule("backward", backward, (rebuilt, ct), {})
            if not isinstance(returned, tuple):
                self._refuse("backward", "no tuple", _kind(returned))
            if len(returned) != len(arguments.trees):
                count = f"{len(returned)} for {len(arguments.trees)} arguments"
                self._refuse("backward", "another number of cotangents than there are arguments", count)
            return self._contributions(arguments, names, returned)

        fill_function(opened.functions[2], run_backward, backward, Runs.OFTEN)

    def _contributions(self, arguments: Arguments, names: Sequence[str], returned: tuple[Any, ...]) -> list[Value]:
        """Return a cotangent for each operand of float dtype."""
        values = []
        traced = set(arguments.traced)
        for a, ((leaves, tree), given) in enumerate(zip(arguments.trees, returned, strict=True)):
            name = names[a].lstrip("=")
            parts = _match(tree, given)
            if parts is None:
                self._refuse("backward", f"a cotangent of another structure than {name}", _kind(given))
            for i, (leaf, part) in enumerate(zip(leaves, parts, strict=True)):
                if (a, i) in traced and is_inexact(leaf.dtype):
                    values.append(_tangent_value(part, leaf.type, self, "backward", f"the cotangent of {name}"))
        return values


class custom_jvp(_WithRule):
    """Give a function its own forward-mode derivative; reverse mode follows from it, by transposing.

    The rule is captured code and must be linear in the tangents; derivatives of any order can be taken.

    >>> @custom_jvp
    ... def softplus(x):
    ...     return np.log1p(np.exp(x))
    >>> _ = softplus.defjvp(lambda primals, tangents: (softplus(*primals), tangents[0] / (1 + np.exp(-primals[0]))))
    >>> float(softplus(0.0)) == np.log(2.0)
    True
    """

    _define, _op = "defjvp(rule)", "custom_jvp"
    _suffixes = ("", "_rule")

    def defjvp(self, rule: F) -> F:
        """Say the derivative; a decorator, which leaves the rule as it is.

        Args:
            rule: `rule(primals, tangents) -> (out, t_out)`; primals is the tuple of the arguments, tangents has their
                structures, with None for what carries no derivative.
        """
        self._rules = (rule,)
        return rule

    def _capture_rules(self, opened: Opened, names: Sequence[str], arguments: Arguments, result: Result) -> None:
        (rule,) = self._guarded_rules()

        def run(body: Body) -> list[Value]:
            primals = body.arguments(arguments)
            tangents = [
                body.param(t.type, f"t_{value.name}" if value.name else "t", t.weak) if is_inexact(t.dtype) else None
                for t, value in zip(arguments.tracers, arguments.operands, strict=True)
            ]
            given = tuple(primals), tuple(arguments.rebuild(tangents, _zero_of))
            returned = self._call_rule("rule", rule, given, {})
            if not isinstance(returned, tuple) or len(returned) != 2:
                self._refuse("rule", "no pair (out, t_out)", _kind(returned))
            outs = self._aligned(opened, returned[0], result, "rule")
            body.require_unwritten(rule)
            parts = _match(result.tree, returned[1])
            if parts is None:
                self._refuse("rule", "a tangent of another structure than the function's result", _kind(returned[1]))
            moved = []
            for leaf, part in zip(result.leaves, parts, strict=True):
                if not isinstance(leaf, Static) and is_inexact(outs[leaf].dtype):
                    moved.append(_tangent_value(part, outs[leaf].array_type, self, "rule", "t_out"))
            return [*outs, *moved]

        fill_function(opened.functions[1], run, rule, Runs.OFTEN)

    def _check_rules(self, opened: Opened, arguments: Arguments) -> None:
        rule, first = opened.functions[1], len(arguments.operands)
        moving = sum(is_inexact(value.dtype) for value in arguments.operands)
        fault = find_nonlinear(rule, range(first, first + moving), range(opened.outs, len(rule.results)))
        if fault is not None:
            raise ArgumentError(
                f"the rule of {self._name} is not linear in the tangents",
                code="TG232",
                span=fault.span or user_span(),
                found=f"t_out: {fault.reason}",
                help="t_out must be a sum of tangents, each times what the primals give, and zero for zero tangents:"
                " reverse mode transposes it; None is a zero tangent",
            )


def _tangents(body: Body, opened: Opened, result: Result, name: str) -> Any:
    """Add a parameter per float result; return them in the structure of the result, None elsewhere."""
    outs = opened.functions[0].results[: opened.outs]
    params = {
        position: body.param(out.array_type, f"{name}_{out.name}" if out.name else name)
        for position, out in enumerate(outs)
        if is_inexact(out.dtype)
    }
    leaves = tuple(Static(None if isinstance(leaf, Static) else params.get(leaf)) for leaf in result.leaves)
    return join_results(Result(result.tree, leaves, result.weak), [])


def _zero_of(leaf: Any) -> Any:
    """Return the tangent of a leaf that is known at capture."""
    if isinstance(leaf, float | complex):
        return 0.0
    if isinstance(leaf, Tracer | np.ndarray) and is_inexact(leaf.dtype):
        return np.zeros(leaf.shape, leaf.dtype)
    return None


def _match(tree: Tree, value: Any) -> list[Any] | None:
    """Return one entry per leaf of a structure; None stands for any part of it. None when the structure differs."""
    if value is None:
        return [None] * tree.size
    if tree.kind is None:
        return [value]
    leaves, own = flatten(value)
    if own == tree:
        return leaves
    if own.kind is not tree.kind or own.data != tree.data:
        return None
    items = (
        list(value.values()) if isinstance(value, dict) else list(value) if isinstance(value, list | tuple) else None
    )
    if items is None:
        return None
    found: list[Any] = []
    for child, item in zip(tree.children, items, strict=True):
        part = _match(child, item)
        if part is None:
            return None
        found.extend(part)
    return found


def _tangent_value(part: Any, kind: ArrayType, owner: _WithRule, rule: str, label: str) -> Value:
    """Return a tangent or cotangent from a rule as a value of the type that it must have."""
    if part is None:
        zero: Value = full(shape=kind.shape, dtype=kind.dtype, value=0.0)
        return zero
    if not isinstance(part, Tracer | np.ndarray | np.generic | int | float | complex):
        owner._refuse(rule, "something that is no array", f"{label}: {_kind(part)}")
    tracer = asarray(part)
    if tracer.type.shape != kind.shape:
        owner._refuse(rule, "an array of another shape", f"{label}: {tracer.type}, and it must be {kind}")
    return _cast(tracer.value, kind, owner, rule)


def _cast(value: Value, kind: ArrayType, owner: _WithRule, rule: str) -> Value:
    if value.dtype == kind.dtype:
        return value
    for name, belongs in (("complex numbers", is_complex), ("floats", is_inexact)):
        if belongs(value.dtype) and not belongs(kind.dtype):
            owner._refuse(rule, name, f"{value.type}, and it must be {kind}")
    from_tracer = Tracer(context.Storage(value.array_type, current().depth, value))
    return cast_to(from_tracer, kind.dtype).value


def _kind(value: Any) -> str:
    if isinstance(value, tuple | list | dict):
        return f"a {kind_name(type(value))} of {len(value)}"
    return str(value.type) if isinstance(value, Tracer) else type(value).__name__


def _shape_text(result: Result, values: Sequence[Value]) -> str:
    parts = [repr(x.value) if isinstance(x, Static) else str(values[x].type) for x in result.leaves]
    if result.tree.kind is None:
        return parts[0]
    return f"{kind_name(result.tree.kind)} of {', '.join(parts) or 'nothing'}"
