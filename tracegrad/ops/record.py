"""Short constructors for records, so that a record says only what is particular to its op.

Previous: text.py; next: creation.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracegrad.ir.opdef import NONDIFF, OpDef, Rule, Sample, register


def elementwise(
    name: str,
    operands: tuple[str, ...],
    doc: str,
    *,
    domain: tuple[float, float] = (-2.0, 2.0),
    samples: tuple[Sample, ...] | None = None,
    singular: tuple[bool, ...] = (),
    **fields: Any,
) -> OpDef:
    """Register an elementwise op; without `samples` it gets float ones of rank 2 and 0 drawn from `domain`."""
    if samples is None:
        samples = tuple(Sample(" ".join([t] * len(operands)), domain=domain) for t in ("f[2,3]", "f[]"))
    return register(
        OpDef(
            name=name,
            operands=operands,
            doc=doc,
            elementwise=True,
            singular=singular or (False,) * len(operands),
            samples=samples,
            **fields,
        )
    )


def nondifferentiable(name: str, operands: tuple[str, ...], doc: str, **fields: Any) -> OpDef:
    """Register an elementwise op whose result never depends smoothly on its operands."""
    return elementwise(name, operands, doc, marker=NONDIFF, **fields)


def linear(
    name: str,
    operands: tuple[str, ...],
    doc: str,
    *,
    transpose: Rule,
    in_operands: Sequence[int] = (0,),
    **fields: Any,
) -> OpDef:
    """Register an op that is jointly linear in the operands at the positions `in_operands` of `operands`.

    A position that names a starred operand stands for all operands under that name.
    """
    return register(
        OpDef(name=name, operands=operands, doc=doc, linear=tuple(in_operands), transpose=transpose, **fields)
    )
