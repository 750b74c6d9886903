"""Defaults of the user's parameters, as text for the definition of a dumped function.

Reads the user's function and what a program is made for; gives texts to pipeline.py. Previous:
inner_gradients.py; next: specialization.py.

A default is written where a call without the argument means the same for the user's function and for the dumped one:
where it is of the type and structure that the code is made for, and for a value that is fixed in the code, where it is
that value. It is Python's: a number, a string, None, or a tuple, list or dict of these.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tracegrad.errors import ArgumentTypeError
from tracegrad.runtime.signature import Signature, Tree, flatten, renumber, walk


def default_texts(function: Callable[..., Any], signature: Signature, contents: Mapping[int, bytes]) -> dict[str, str]:
    """Return the texts of defaults by the name of the parameter.

    Args:
        contents: the contents of leaves by which sizes in the code were decided.

    >>> def scaled(x, factor=0.5, *, steps=15): ...
    >>> default_texts(scaled, Signature(("x", "factor"), (flatten(1.0)[0],) * 2, tuple(flatten(1.0)[1])), {})
    {'factor': '0.5'}
    """
    try:
        parameters = inspect.signature(function).parameters
    except (ValueError, TypeError):
        return {}
    texts: dict[str, str] = {}
    may_have = True
    for name, tree in reversed(list(zip(signature.names, signature.arguments, strict=True))):
        plain = name.lstrip("=")
        parameter = parameters.get(plain)
        text = None
        if parameter is not None and parameter.default is not parameter.empty:
            text = _text(parameter.default, tree, signature, contents)
        if not name.startswith("="):  # before a parameter that must be given by position, none has a default
            may_have = may_have and text is not None
        if text is not None and (may_have or name.startswith("=")):
            texts[plain] = text
    return texts


def _text(default: Any, tree: Tree, signature: Signature, contents: Mapping[int, bytes]) -> str | None:
    """Return the text of a default, or None where the code is made for something else or there is no such text."""
    try:
        own, leaves, values = flatten(default)
    except ArgumentTypeError:
        return None
    numbers = [node.data for _, node in walk(tree, "") if node.kind == "leaf"]
    if len(numbers) != len(leaves) or renumber(own, numbers) != tree:
        return None
    for number, leaf, value in zip(numbers, leaves, values, strict=True):
        if leaf.type != signature.leaves[number].type:
            return None
        if number in contents and np.asarray(value).tobytes() != contents[number]:
            return None
    text = _literal(default)
    # of a fixed value only the code has a use
    return "None" if text is None and tree.kind in ("static", "identity") else text


def _literal(value: Any) -> str | None:
    """Return the expression of a value made of Python's numbers, strings and None."""
    kind = type(value)
    if kind is float and not math.isfinite(value):
        return "np.nan" if math.isnan(value) else "np.inf" if value > 0 else "-np.inf"
    if value is None or kind in (bool, int, float, str) or (kind is complex and np.isfinite(value)):
        return repr(value)
    if kind is dict:
        pairs = [(_literal(key), _literal(item)) for key, item in value.items()]
        return None if any(None in pair for pair in pairs) else f"{{{', '.join(f'{k}: {v}' for k, v in pairs)}}}"
    if kind not in (tuple, list):
        return None
    items = [_literal(item) for item in value]
    if None in items:
        return None
    inside = ", ".join(item for item in items if item is not None)
    return f"[{inside}]" if kind is list else f"({inside},)" if len(items) == 1 else f"({inside})"
