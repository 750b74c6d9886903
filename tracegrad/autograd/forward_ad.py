"""Forward mode: dual tensors, whose tangents go through operations by the JVP rules of the op table.

Reads kernels and tensors; sets tangents. Previous: functional.py; next: anomaly_mode.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from tracegrad.runtime.kernel import Kernel
from tracegrad.runtime.operate import cast
from tracegrad.runtime.shaping import view
from tracegrad.runtime.tape import _tangent_rules, apply_kernel, keep_tangents, mode
from tracegrad.runtime.tensor import Tensor, type_name
from tracegrad.runtime.views import check_tangent, give_tangent, tangent_of


class UnpackedDualTensor(NamedTuple):
    """A primal and its tangent, None for zero."""

    primal: Tensor
    tangent: Tensor | None


def _rule(kernel: Kernel, tensors: Sequence[Tensor], outs: Sequence[Tensor]) -> None:
    """Give results their tangents."""
    level = mode.level
    tangents = [tangent_of(t) for t in tensors]
    if all(t is None for t in tangents):
        return
    jvp, results = kernel.jvp(tuple(t is not None for t in tangents))
    mode.level = -1
    try:
        found = apply_kernel(f"{kernel.name}JvpBackward0", jvp, [*tensors, *[t for t in tangents if t is not None]])
    finally:
        mode.level = level
    for position, tangent in zip(results, found, strict=True):
        give_tangent(outs[position], tangent)
    keep_tangents(outs, tensors, tangents)


_tangent_rules.append(_rule)


#: each use of forward mode has a number of its own: tangents of an earlier one do not count
_levels = itertools.count()


def _number() -> int:
    """Return torch's number of the level in force, -1 outside forward mode."""
    return 0 if mode.level >= 0 else -1


def enter_dual_level() -> int:
    """Begin forward mode; return torch's number of the level.

    Raises:
        RuntimeError: it has begun already.
    """
    if mode.level >= 0:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    mode.level = next(_levels)
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """End forward mode; all tangents are forgotten."""
    if level is not None and level != _number():
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is not supported."
        )
    if mode.level < 0:
        raise RuntimeError("Trying to exit a forward AD level that was not entered")
    mode.level = -1


@contextmanager
def dual_level() -> Iterator[int]:
    """Run the body in forward mode."""
    level = enter_dual_level()
    try:
        yield level
    finally:
        exit_dual_level(level=level)


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """Return a view of the tensor that carries a tangent.

    Raises:
        RuntimeError, ValueError: not in forward mode, or the tangent does not fit.
    """
    if mode.level < 0 or (level is not None and level < 0):
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    if not (tensor.is_floating_point() or tensor.is_complex()):
        raise ValueError(f"Expected primal to be floating point or complex, but got: {tensor.dtype!r}")
    if level is not None and level != _number():
        raise RuntimeError("Invalid level given to _make_dual")
    if tangent_of(tensor) is not None:
        raise RuntimeError(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level 0 is not "
            "supported."
        )
    if tangent_of(tangent) is not None:
        raise RuntimeError(
            "Setting a forward grad that itself has a forward gradient at the same level0 is not supported."
        )
    check_tangent(tensor, tangent)
    if tangent.is_floating_point() and tensor.is_floating_point():
        tangent = cast(tangent, tensor._a.dtype)
    if tangent.dtype != tensor.dtype:
        raise RuntimeError(f"Expected tangent of dtype {tensor.dtype!r}, but got {tangent.dtype!r}")
    dual: Tensor = view(tensor, tensor.shape)
    dual._base, dual._steps = None, ()  # its views take their tangents from it
    give_tangent(dual, tangent)
    return dual


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """Return primal and tangent; the tangent is None outside forward mode."""
    if mode.level < 0 or (level is not None and level < 0):
        return UnpackedDualTensor(tensor, None)
    if not isinstance(tensor, Tensor):
        raise TypeError(f"_unpack_dual(): argument 'dual' (position 1) must be Tensor, not {type_name(tensor)}")
    if level is not None and level != _number():
        raise RuntimeError("Invalid level given to _fw_primal")
    tangent = tangent_of(tensor)
    if tangent is None:
        return UnpackedDualTensor(tensor, None)
    before, mode.level = mode.level, -1
    try:
        primal: Tensor = view(tensor, tensor.shape)
        primal._base, primal._steps = None, ()  # it has no tangent, as views of the tensor have
    finally:
        mode.level = before
    return UnpackedDualTensor(primal, tangent)
