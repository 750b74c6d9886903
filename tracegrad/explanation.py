"""What became of a function: lines staged, unrolled or run at capture, paths without derivative, guards, recaptures.

Reads captured functions; gives an Explanation to the user and to cli.py. Previous: custom.py; next: debug.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from tracegrad.api import MEMORY, Transformed, arrays_of, bind, explains_misuse, parameters_of
from tracegrad.capture import guards
from tracegrad.capture.context import detailed
from tracegrad.capture.known import leaves_of_call
from tracegrad.driver import pipeline
from tracegrad.driver.derive import Request
from tracegrad.driver.specialization import Program
from tracegrad.errors import Span
from tracegrad.frames import with_user_frames
from tracegrad.ir.core import Function, Operation, Value, clone_function, walk
from tracegrad.ir.inline import inline_calls, is_inlinable, own_callees
from tracegrad.ir.types import is_inexact, is_integer
from tracegrad.runtime.signature import Signature, signature_of
from tracegrad.transform.activity import carries_derivative, dependencies

_COMPARISONS = frozenset({"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"})
_ROUNDING = frozenset({"floor", "ceil", "trunc", "rint", "sign"})


@dataclass(frozen=True, slots=True)
class Event:
    """A statement, and what was made of it."""

    span: Span | None
    text: str


@dataclass(frozen=True, slots=True)
class Cut:
    """A place where a path from an input to a result loses its derivative.

    Attributes:
        inputs: the inputs on such a path, as the user writes them.
        reason: "integer cast", "comparison", "rounding", "stop_gradient", "custom rule", or the operation.
    """

    span: Span | None
    inputs: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """What became of a function at one signature; print it.

    Attributes:
        function: its name.
        signature: the arguments it was captured for.
        staged: statements that became loops and branches, were unrolled, or were run at capture; calls that say their
            derivative, are run again for it, or are left to Python.
        cuts: where paths lose their derivative.
        zero: input -> why its gradient is zero although it is a float.
        guards: what is checked at each call.
        hidden: arrays and floats from outside that are read at each call.
        recaptures: transform -> why it was compiled last.
    """

    function: str
    signature: str
    staged: tuple[Event, ...]
    cuts: tuple[Cut, ...]
    zero: dict[str, str]
    guards: tuple[str, ...]
    hidden: tuple[str, ...]
    recaptures: dict[str, str]

    def __str__(self) -> str:
        lines = [f"{self.function}, captured for {self.signature}"]
        events = [(e.span, e.text) for e in self.staged]
        lines += _section("control flow and calls", events, "straight-line code")
        zero = [f"{name}: {why}" for name, why in self.zero.items()]
        lines += ["", "inputs with zero gradient", *(f"  {z}" for z in zero or ["none"])]
        cuts = [(c.span, f"{c.reason}, on the way from {', '.join(c.inputs)}") for c in self.cuts]
        lines += _section("paths cut", cuts, "none")
        lines += ["", "read at every call", *(f"  {h}" for h in self.hidden or ("nothing but the arguments",))]
        lines += ["", "recaptured when one of these changes", *(f"  {g}" for g in self.guards or ("nothing",))]
        if self.recaptures:
            lines += ["", "last compiled because of", *(f"  {k}: {why}" for k, why in self.recaptures.items())]
        return "\n".join(lines)

    __repr__ = __str__


def _section(title: str, entries: list[tuple[Span | None, str]], empty: str) -> list[str]:
    lines = ["", title]
    for span, text in entries:
        place = f"{span}: " if span is not None else ""
        lines.append(f"  {place}{text}")
        if span is not None and span.text().strip():
            lines.append(f"      {span.text().strip()}")
    return [*lines, *([] if entries else [f"  {empty}"])]


@with_user_frames
@explains_misuse
def explain(f: Callable[..., Any]) -> Callable[..., Explanation]:
    """Return a function that takes the arguments of `f` and says what a capture for them makes of it.

    Args:
        f: a function, or what a transform returned for one.

    >>> print(explain(lambda x: x * round(x))(2.5).cuts[0].reason)
    rounding
    """
    plain = f
    while isinstance(plain, Transformed):
        plain = plain._function
    parameters = parameters_of(plain)

    @functools.wraps(plain)
    @with_user_frames
    def explained(*args: Any, **kwargs: Any) -> Explanation:
        names, values = bind(parameters, plain, *arrays_of((args, kwargs)))
        signature, leaves = signature_of(names, values)
        with leaves_of_call(leaves):
            return explain_signature(plain, signature, reasons=_recaptures(f, plain))

    return explained


def explain_signature(
    function: Callable[..., Any],
    signature: Signature,
    sizes: dict[str, int] | None = None,
    reasons: dict[str, str] | None = None,
) -> Explanation:
    """Capture a function and explain what was made of it."""
    token = detailed.set(True)
    try:
        program = pipeline.build_program(function, Request(), signature, sizes)
    finally:
        detailed.reset(token)
    captured = program.captured
    cuts, zero = find_cuts(program)
    noted = dict.fromkeys(captured.events)
    contents = [f"{signature.paths()[number]} has the same content" for number in sorted(captured.contents)]
    events = sorted(noted, key=lambda e: (e[0].file, e[0].line) if e[0] is not None else ("", 0))
    return Explanation(
        captured.function.name,
        signature.describe() or "no arguments",
        tuple(Event(span, text) for span, text in events),
        tuple(cuts),
        zero,
        # that functions keep their code goes without saying
        (
            *(_guard_text(p.name, value) for p, value in captured.guards if not p.name.endswith(".__code__")),
            *contents,
        ),
        tuple(f"{hidden.place.name}: {hidden.value.type}" for hidden in captured.hidden),
        reasons or {},
    )


def _guard_text(name: str, value: Any) -> str:
    if type(value).__module__ == guards.__name__:  # a value with the way to compare it
        value = value.value
    if isinstance(value, list | dict | tuple):
        return f"{name} has not changed"
    if callable(value):
        return f"{name} is the same {'class' if isinstance(value, type) else 'function'}"
    if type(value).__module__ != "builtins":
        return f"{name} is the same {type(value).__name__}"
    text = repr(value)
    return f"{name} is {text}" if len(text) < 60 else f"{name} is the same {type(value).__name__}"


def _recaptures(f: Any, plain: Any) -> dict[str, str]:
    """Return why the transforms of a function were compiled last."""
    transforms = [f] if isinstance(f, Transformed) else []
    memory = getattr(plain, "__dict__", {}).get(MEMORY)
    if memory is not None and memory.function is plain:
        transforms += [made for made in memory.made.values() if isinstance(made, Transformed) and made is not f]
    return {t._request.kind: t._specializations.reason for t in transforms if t._specializations.reason}


# ---- paths


def find_cuts(program: Program) -> tuple[list[Cut], dict[str, str]]:
    """Return where paths lose their derivative, and the float inputs whose gradient is zero for that reason."""
    function = clone_function(program.captured.function)
    inline_calls(function, _is_transparent)
    called = own_callees(function)
    for callee in called:
        inline_calls(callee, _is_transparent)
    smooth: dict[Value, list[Value]] = {}
    every: dict[Value, list[Value]] = {}
    operations: dict[Value, Operation] = {}
    for operation in (o for part in (function, *called) for o in walk(part.body)):
        operations.update(dict.fromkeys(operation.results, operation))
        for source, target in _smooth_paths(operation):
            if carries_derivative(source) and carries_derivative(target):
                smooth.setdefault(source, []).append(target)
        for source, target in _uses(operation):
            every.setdefault(source, []).append(target)
    outputs = [v for i, v in enumerate(function.results) if i not in program.write_back.values()] or function.results
    needed = _reach(outputs, _turned(every))
    names = _input_names(program, function)
    found: dict[tuple[Span | None, str], list[str]] = {}
    zero: dict[str, str] = {}
    for param, name in names.items():
        if not is_inexact(param.dtype):
            if is_integer(param.dtype):
                zero[name] = f"it is of integer dtype ({param.type})"
            continue
        if param not in needed:
            zero[name] = "it is not used"
            continue
        reached = _reach([param], smooth)
        cuts = []
        for source in reached:
            for target in every.get(source, ()):
                if target in needed and target not in smooth.get(source, ()) and target in operations:
                    operation = operations[target]
                    after = [operations[t] for t in every.get(target, ()) if t in operations]
                    cuts.append((operation.span, _reason(operation, after)))
        for cut in dict.fromkeys(cuts):
            found.setdefault(cut, []).append(name)
        if not any(v in reached for v in outputs):
            places = [f"{reason} at {span.line}" if span else reason for span, reason in dict.fromkeys(cuts)]
            zero[name] = f"every path to the result is cut: {', '.join(places)}"
    ordered = sorted(found.items(), key=lambda c: (c[0][0].file, c[0][0].line) if c[0][0] is not None else ("", 0))
    return [Cut(span, tuple(inputs), reason) for (span, reason), inputs in ordered], zero


def _is_transparent(operation: Operation) -> bool:
    """Return whether a call has the derivative of the body of its function."""
    return is_inlinable(operation) and "arguments" not in operation.attrs


def _smooth_paths(operation: Operation) -> Iterator[tuple[Value, Value]]:
    """Yield (source, target) wherever a derivative passes, or both are one value."""
    if operation.op == "call":
        yield from _through_call(operation)
    elif operation.op == "while":
        yield from dependencies(operation)
        yield from _tested(operation)
    elif "arguments" in operation.attrs:
        yield from _by_rule(operation)
    else:
        yield from dependencies(operation)


def _through_call(operation: Operation) -> Iterator[tuple[Value, Value]]:
    body = operation.attrs["function"].body
    yield from zip(operation.operands, body.params, strict=True)
    yield from zip(body.yields, operation.results, strict=True)


def _tested(operation: Operation) -> Iterator[tuple[Value, Value]]:
    """Yield what a `while` carries with the parameter of its condition."""
    condition, body = operation.blocks
    for init, param, after in zip(operation.operands, condition.params, body.yields, strict=True):
        yield init, param
        yield after, param


def _by_rule(operation: Operation) -> Iterator[tuple[Value, Value]]:
    """Yield (argument, result) wherever the rule of a call makes a derivative of one from that of the other."""
    count = operation.attrs["arguments"]
    arguments = [v for v in operation.operands[:count] if carries_derivative(v)]
    results = [v for v in operation.results if carries_derivative(v)]
    reverse = operation.op == "custom_vjp"
    rule: Function = operation.attrs["backward" if reverse else "rule"]
    if reverse:
        others = len(operation.operands) - count
        first = len(rule.params) - others - len(results)
        given, made = rule.params[first : first + len(results)], rule.results
    else:
        given, made = rule.params[count : count + len(arguments)], rule.results[len(operation.results) :]
    sources, targets = (results, arguments) if reverse else (arguments, results)
    edges: dict[Value, list[Value]] = {}
    for inner in walk(rule.body):
        for source, target in product(inner.operands, inner.results) if inner.op == "call" else _uses(inner):
            edges.setdefault(source, []).append(target)
    for seed, source in zip(given, sources, strict=True):
        reached = _reach([seed], edges)
        for derivative, target in zip(made, targets, strict=True):
            if derivative in reached:
                yield (target, source) if reverse else (source, target)


def _input_names(program: Program, function: Function) -> dict[Value, str]:
    interface = program.captured.function.interface
    assert interface is not None
    count = len(program.signature.leaves)
    return dict(zip(function.params[:count], interface.paths[:count], strict=True))


def _reach(start: list[Value], edges: dict[Value, list[Value]]) -> dict[Value, None]:
    found: dict[Value, None] = {}
    waiting = list(start)
    while waiting:
        value = waiting.pop()
        if value not in found:
            found[value] = None
            waiting.extend(edges.get(value, ()))
    return found


def _turned(edges: dict[Value, list[Value]]) -> dict[Value, list[Value]]:
    turned: dict[Value, list[Value]] = {}
    for source, targets in edges.items():
        for target in targets:
            turned.setdefault(target, []).append(source)
    return turned


def _uses(operation: Operation) -> Iterator[tuple[Value, Value]]:
    """Yield (source, target) wherever target depends on source in any way."""
    if operation.op in ("if", "for", "while", "push", "pop"):
        yield from dependencies(operation)
        deciding = operation.operands[: {"if": 1, "for": 2}.get(operation.op, 0)]
        if operation.op == "while":
            deciding = list(operation.blocks[0].yields)
            yield from _tested(operation)
        inside = [p for block in operation.blocks for p in block.params] if operation.op == "for" else []
        for source in deciding:
            for target in [*operation.results, *inside[:1]]:
                yield source, target
        return
    if operation.op == "call":
        yield from _through_call(operation)
        return
    yield from product(operation.operands, operation.results)


def _reason(operation: Operation, after: list[Operation]) -> str:
    name = operation.op
    if "arguments" in operation.attrs:
        return "custom rule"
    if name == "trunc" and after and all(o.op == "cast" and is_integer(o.result.dtype) for o in after):
        return "integer cast"
    if name == "cast":
        return "bool cast" if operation.result.dtype.kind == "b" else "integer cast"
    if name in _COMPARISONS:
        return "comparison"
    if name in _ROUNDING:
        return "rounding" if name != "sign" else "sign"
    return name
