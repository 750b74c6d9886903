"""Gradients of plain NumPy functions by differences, over trees of arrays: the reference of the zoo."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np


def float_leaves(tree: Any) -> list[np.ndarray]:
    """Return copies of the floating leaves of a tree, in order: dicts by key, then position or field."""
    match tree:
        case dict():
            return [leaf for key in sorted(tree) for leaf in float_leaves(tree[key])]
        case list() | tuple():
            return [leaf for item in tree for leaf in float_leaves(item)]
        case float() | np.floating() | np.ndarray():
            leaf = np.array(tree)
            return [leaf] if leaf.dtype.kind == "f" else []
        case _ if dataclasses.is_dataclass(tree):
            return [leaf for field in dataclasses.fields(tree) for leaf in float_leaves(getattr(tree, field.name))]
        case _:
            return []


def replace_leaves(tree: Any, leaves: list[np.ndarray]) -> Any:
    """Return the tree with its floating leaves taken, in order, from the front of `leaves`."""
    match tree:
        case dict():
            new = {key: replace_leaves(tree[key], leaves) for key in sorted(tree)}
            return {key: new[key] for key in tree}
        case list():
            return [replace_leaves(item, leaves) for item in tree]
        case tuple():
            items = [replace_leaves(item, leaves) for item in tree]
            return type(tree)(*items) if hasattr(tree, "_fields") else tuple(items)
        case float() | np.floating():
            return type(tree)(leaves.pop(0))
        case np.ndarray() if tree.dtype.kind == "f":
            return leaves.pop(0)
        case _ if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
            fields = {f.name: replace_leaves(getattr(tree, f.name), leaves) for f in dataclasses.fields(tree)}
            return dataclasses.replace(tree, **fields)
        case _:
            return tree


def in_float64(tree: Any) -> Any:
    """Return the tree with every floating leaf in double precision."""
    match tree:
        case dict():
            return {key: in_float64(value) for key, value in tree.items()}
        case list():
            return [in_float64(item) for item in tree]
        case tuple() if not hasattr(tree, "_fields"):
            return tuple(in_float64(item) for item in tree)
        case np.floating():
            return np.float64(tree)
        case np.ndarray() if tree.dtype.kind == "f":
            return tree.astype(np.float64)
        case _:
            return tree


def weights_like(outputs: list[np.ndarray]) -> list[np.ndarray]:
    """Return one fixed cotangent per output; 1 when there is a single scalar."""
    if len(outputs) == 1 and outputs[0].ndim == 0:
        return [np.ones_like(outputs[0])]
    rng = np.random.default_rng(7)
    return [rng.uniform(0.5, 1.5, out.shape).astype(out.dtype) for out in outputs]


def weighted(function: Callable[..., Any], args: tuple[Any, ...]) -> float:
    """Return the sum of the outputs times their weights, in plain NumPy, with `args` left untouched."""
    outputs = float_leaves(function(*copy.deepcopy(args)))
    return sum(float(np.sum(w * out)) for w, out in zip(weights_like(outputs), outputs, strict=True))


def differences(
    function: Callable[..., Any], args: tuple[Any, ...], wrt: tuple[int, ...], step: float = 1e-3
) -> list[np.ndarray]:
    """Return d weighted / d leaf for every floating leaf of the arguments `wrt`.

    Source: central differences of fourth order, (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12h.
    """
    chosen = [args[i] for i in wrt]
    leaves = float_leaves(chosen)

    def value_at(k: int, index: tuple[int, ...], shift: float) -> float:
        moved = [leaf.copy() for leaf in leaves]
        moved[k][index] += shift
        new = list(args)
        for i, arg in zip(wrt, replace_leaves(chosen, moved), strict=True):
            new[i] = arg
        return weighted(function, tuple(new))

    gradient = [np.zeros(leaf.shape) for leaf in leaves]
    for k, leaf in enumerate(leaves):
        for index in np.ndindex(leaf.shape):
            h = step * max(1.0, abs(float(leaf[index])))
            near = value_at(k, index, h) - value_at(k, index, -h)
            far = value_at(k, index, 2 * h) - value_at(k, index, -2 * h)
            gradient[k][index] = (8 * near - far) / (12 * h)
    return gradient


def scale(leaves: list[np.ndarray]) -> float:
    """Return the largest magnitude in the leaves, at least a tiny one."""
    return max([float(np.max(np.abs(leaf))) for leaf in leaves if leaf.size] + [1e-8])
