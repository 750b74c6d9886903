"""Tangents and cotangents as the user gives them, and the check that what is differentiated by is a float.

Reads trees; gives leaves. Previous: trees.py; next: inner_gradients.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracegrad.capture.context import is_capturing, user_span
from tracegrad.capture.ragged import Cut
from tracegrad.capture.tracer import Tracer, cast_to, from_value
from tracegrad.driver.derive import Request, leaf_numbers
from tracegrad.driver.trees import child_steps
from tracegrad.errors import ArgumentTypeError, Span
from tracegrad.ir.types import ArrayType, is_inexact
from tracegrad.ops import full
from tracegrad.runtime.signature import Leaf, Signature, Tree, open_custom


def require_lengths(request: Request, tree: Tree) -> None:
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
        require_lengths(request, child)


def check_differentiable(request: Request, signature: Signature) -> None:
    for argnum in request.argnums:
        tree, name = signature.arguments[argnum], signature.names[argnum].lstrip("=")
        for path, leaf in _leaves(tree, signature, name):
            if leaf is None or not is_inexact(leaf.type.dtype):
                raise not_a_float(path, name, str(leaf) if leaf is not None else "an int or bool", None)


def _leaves(tree: Tree, signature: Signature, path: str) -> list[tuple[str, Leaf | None]]:
    """Return the arrays and numbers of an argument, by path; None stands for an int or bool, settings are left out."""
    if tree.kind == "leaf":
        return [(path, signature.leaves[tree.data])]
    if tree.kind == "static" and tree.data[0] in (int, bool):
        return [(path, None)]
    steps, settings = child_steps(tree)
    return [
        (inner, leaf)
        for child, step in zip(tree.children, steps, strict=True)
        for inner, leaf in _leaves(child, signature, path + step)
        if step[1:] not in settings or (leaf is not None and is_inexact(leaf.type.dtype))
    ]


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
    steps, settings = child_steps(tree)
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


def not_a_float(path: str, name: str, found: str, span: Span | None) -> ArgumentTypeError:
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
