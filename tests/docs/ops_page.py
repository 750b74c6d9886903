"""Writes docs/ops.md from the op table."""

from __future__ import annotations

import tracegrad.ops
from tracegrad.ir.opdef import BY_TRANSFORM, NONDIFF, TABLE, OpDef

_HEAD = """\
# Operations

The closed set of operations of the IR, written by `python -m tests.docs --write` from the op table
(`tracegrad/ops/`). NumPy's other functions are composites of these, made while a function is captured.

Derivative: *partials* (elementwise; JVP and VJP follow), *linear* (a transpose rule; the JVP is the operation itself),
*rules* (a JVP and a VJP), *none* (the result is flat, or no number), *transform* (by `transform/vjp.py`).
"""

_FAMILIES = {
    "creation": "Creation",
    "elementwise": "Elementwise",
    "special": "Special functions of physics and statistics",
    "shape": "Shape",
    "index": "Indexing",
    "reduce": "Reductions, running operations, sorting",
    "linalg": "Products and linear algebra",
    "factorization": "Factorizations",
    "fourier": "Fourier transforms",
    "control": "Control flow and effects",
    "callbacks": "Callbacks",
}


def ops_page() -> str:
    """Return the text of docs/ops.md."""
    parts = [_HEAD]
    done: set[str] = set()
    for family, title in _FAMILIES.items():
        module = getattr(tracegrad.ops, family)
        # a module imports operations of the modules before it only, so the first that holds one defines it
        ops = [op for op in TABLE.values() if op.name not in done and any(v is op for v in vars(module).values())]
        done.update(op.name for op in ops)
        parts.append(f"## {title}\n")
        parts.append("| operation | computes | derivative | NumPy |\n|---|---|---|---|")
        parts.extend(_row(op) for op in ops)
        parts.append("")
    assert done == set(TABLE)
    return "\n".join(parts).rstrip() + "\n"


def _row(op: OpDef) -> str:
    attributes = f" {{{', '.join(op.attributes)}}}" if op.attributes else ""
    numpy = f"`{op.numpy}`" if isinstance(op.numpy, str) and op.numpy else ""
    cells = (
        f"`{' '.join([op.name, ', '.join(op.operands)]).rstrip()}{attributes}`",
        " ".join(op.doc.split()),
        _derivative(op),
        numpy,
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _derivative(op: OpDef) -> str:
    if op.marker is NONDIFF:
        return "none"
    if op.marker is BY_TRANSFORM:
        return "transform"
    if op.partials is not None:
        return "partials"
    if op.transpose is not None:
        return "linear in " + ", ".join(op.operands[i].lstrip("*") for i in op.linear)
    return "rules"
