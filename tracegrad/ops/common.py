"""How derivatives follow from a record, whichever way it says them; and the constants rules are written with.

Reads records; builds or evaluates JVPs and VJPs through the current interpreter. Previous: control.py; next:
evaluate.py.

Complex numbers: the gradient of a real loss is dL/dRe + i dL/dIm, so the cotangent of a holomorphic op is multiplied
with the conjugate of its partial. `apply_partials_vjp` is the one place that does so; rules that are no partials
conjugate themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tracegrad.errors import InternalError
from tracegrad.ir.opdef import BY_TRANSFORM, NONDIFF, OpDef, type_of
from tracegrad.ir.types import is_inexact
from tracegrad.ops.creation import full_like, full_of, ones_like, zeros_like
from tracegrad.ops.elementwise import (
    add,
    keep_zero,
    multiply,
    negative,
    subtract,
)
from tracegrad.ops.reduce import conjugate_if_complex
from tracegrad.ops.text import bind_operands

__all__ = [
    "apply_partials_jvp",
    "apply_partials_vjp",
    "conjugate_if_complex",
    "full_like",
    "full_of",
    "jvp_of",
    "linear_positions",
    "ones_like",
    "scaled",
    "vjp_of",
    "zeros_like",
]

Cotangents = tuple[Any, ...]
Scale = Callable[[int, Any, Any], Any]


def linear_positions(op: OpDef, count: int) -> tuple[int, ...]:
    """Return the positions, among `count` operands, in which a linear op is linear."""
    bound = list(bind_operands(op, range(count)).values())
    positions: list[int] = []
    for k in op.linear:
        positions.extend(bound[k] if isinstance(bound[k], tuple) else (bound[k],))
    return tuple(positions)


def _is_active(value: Any) -> bool:
    return is_inexact(type_of(value).dtype)


def scaled(value: Any, partial: Any, guarded: bool) -> Any:
    """Multiply a tangent or cotangent with a partial; when guarded, zero stays zero whatever the partial is.

    The product stays linear in `value` where the partial is finite, so that its own derivative is right at zero too.
    """
    if isinstance(partial, int):
        assert partial == 1, "a partial given as a number is 1"
        return value
    product = multiply(value, partial)
    return keep_zero(value, product) if guarded else product


def apply_partials_vjp(
    op: OpDef, ct: Any, out: Any, operands: Sequence[Any], attrs: Mapping[str, Any], scale: Scale
) -> Cotangents:
    """Return per operand ct * conj(partial), or None where there is no partial.

    scale: multiplies, given the position of the operand, the cotangent and the partial.
    """
    assert op.partials is not None, f"{op.name} has no partials"
    cotangents: list[Any] = []
    for position, (partial, operand) in enumerate(zip(op.partials, operands, strict=True)):
        if partial is None or not _is_active(operand):
            cotangents.append(None)
            continue
        slope = partial(out, *operands, **attrs)
        if isinstance(slope, int):
            cotangents.append(scaled(ct, slope, False))
        else:
            cotangents.append(scale(position, ct, conjugate_if_complex(slope)))
    return tuple(cotangents)


def apply_partials_jvp(
    op: OpDef,
    tangents: Sequence[Any],
    out: Any,
    operands: Sequence[Any],
    attrs: Mapping[str, Any],
    scale: Scale,
) -> Any:
    """Return the sum of tangent * partial over the operands that have both, or None when none has.

    scale: multiplies, given the position of the operand, the tangent and the partial.
    """
    assert op.partials is not None, f"{op.name} has no partials"
    total = None
    for position, (partial, tangent) in enumerate(zip(op.partials, tangents, strict=True)):
        if partial is None or tangent is None:
            continue
        slope = partial(out, *operands, **attrs)
        term = scaled(tangent, slope, False) if isinstance(slope, int) else scale(position, tangent, slope)
        total = term if total is None else add(total, term)
    return total


def vjp_of(
    op: OpDef,
    cts: Sequence[Any],
    outs: Sequence[Any],
    operands: Sequence[Any],
    attrs: Mapping[str, Any],
    *,
    guard: bool | Scale = True,
) -> Cotangents:
    """Return the cotangent of each operand, None for zero.

    Args:
        cts: one cotangent, or None for zero, per result of the op.
        outs: the results.
        guard: whether a zero cotangent can arrive: singular partials are then kept from turning it into NaN. Or a
            function that multiplies, given the position of an operand, a cotangent and a partial.
    """
    if op.marker is BY_TRANSFORM:
        raise _no_rule(op)
    nothing = (None,) * len(operands)
    live = [ct if ct is not None and _is_active(out) else None for ct, out in zip(cts, outs, strict=True)]
    if op.marker is NONDIFF or all(ct is None for ct in live):
        return nothing
    if op.partials is not None:
        return apply_partials_vjp(op, live[0], outs[0], operands, attrs, _scale(op, guard))
    if op.transpose is not None:
        cotangents = op.transpose(live[0], *operands, **attrs)
    else:
        assert op.vjp is not None, f"{op.name} says no derivative"
        single = len(outs) == 1
        cotangents = op.vjp(live[0] if single else tuple(live), outs[0] if single else tuple(outs), *operands, **attrs)
    return tuple(
        ct if ct is not None and _is_active(operand) else None for ct, operand in zip(cotangents, operands, strict=True)
    )


def jvp_of(
    op: OpDef,
    tangents: Sequence[Any],
    outs: Sequence[Any],
    operands: Sequence[Any],
    attrs: Mapping[str, Any],
    *,
    guard: bool | Scale = True,
) -> tuple[Any, ...]:
    """Return the tangent of each result, None for zero.

    Args:
        tangents: one tangent, or None for zero, per operand.
        outs: the results.
        guard: whether singular partials are kept from turning a zero tangent into NaN. Or a function that multiplies,
            given the position of an operand, a tangent and a partial.
    """
    if op.marker is BY_TRANSFORM:
        raise _no_rule(op)
    nothing = (None,) * len(outs)
    live = [t if t is not None and _is_active(x) else None for t, x in zip(tangents, operands, strict=True)]
    if op.marker is NONDIFF or not any(map(_is_active, outs)) or all(t is None for t in live):
        return nothing
    if op.partials is not None:
        return (apply_partials_jvp(op, live, outs[0], operands, attrs, _scale(op, guard)),)
    if op.transpose is not None:
        moved = list(operands)
        positions = linear_positions(op, len(operands))
        if all(live[k] is None for k in positions):
            return nothing
        if op in (add, subtract) and any(t is None for t in live):
            first, second = live
            return (first if second is None else second if op is add else negative(second),)
        for k in positions:
            tangent = live[k]
            moved[k] = zeros_like(operands[k]) if tangent is None else tangent
        return (op(*moved, **attrs),)
    assert op.jvp is not None, f"{op.name} says no derivative"
    if len(outs) == 1:
        return (op.jvp(live, outs[0], *operands, **attrs),)
    return tuple(op.jvp(live, tuple(outs), *operands, **attrs))


def _scale(op: OpDef, guard: bool | Scale) -> Scale:
    if callable(guard):
        return guard
    return lambda position, value, slope: scaled(value, slope, guard and op.singular[position])


def _no_rule(op: OpDef) -> InternalError:
    return InternalError(
        f"'{op.name}' is differentiated by a transform, not by a rule",
        code="TG902",
        span=None,
        found=f"a rule was asked for '{op.name}'",
        help="report this with the function and its arguments",
    )
