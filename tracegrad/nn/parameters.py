"""Parameters that are given in order or by name: how calls of functions and modules made from a table are read.

Reads the arguments of a call. Next: activations.py.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping, Sequence
from typing import Any


def bound(
    name: str, defaults: Mapping[str, Any], args: Sequence[Any], keywords: Mapping[str, Any], *, more: int = 0
) -> dict[str, Any]:
    """Return the value of each parameter.

    Args:
        defaults: parameters in order, with their defaults; `...` where a value must be given.
        more: number of arguments in front that Python counts and that are not among these.

    Raises:
        TypeError: what Python says of a function with these parameters.
    """
    if len(args) > len(defaults):
        least, most = sum(value is ... for value in defaults.values()) + more, len(defaults) + more
        count = f"{most}" if least == most else f"from {least} to {most}"
        raise TypeError(
            f"{name}() takes {count} positional argument{'s' if most != 1 else ''} but {len(args) + more} were given"
        )
    given = dict(zip(defaults, args, strict=False))
    for key, value in keywords.items():
        if key not in defaults:
            raise TypeError(f"{name}() got an unexpected keyword argument '{key}'")
        if key in given:
            raise TypeError(f"{name}() got multiple values for argument '{key}'")
        given[key] = value
    missing = [repr(key) for key, value in defaults.items() if value is ... and key not in given]
    if missing:
        listed = " and ".join([", ".join(missing[:-1]), missing[-1]] if missing[1:] else missing)
        raise TypeError(
            f"{name}() missing {len(missing)} required positional argument{'s'[: len(missing) > 1]}: {listed}"
        )
    return {key: given.get(key, value) for key, value in defaults.items()}


def require_reduction(reduction: str) -> None:
    """Check the name of a reduction.

    Raises:
        ValueError: there is no such one.
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")


def signature_of(defaults: Mapping[str, Any]) -> inspect.Signature:
    """Return the signature that a function with these parameters has."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature(
        [inspect.Parameter(k, kind, default=inspect.Parameter.empty if v is ... else v) for k, v in defaults.items()]
    )


def reduction_of(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """Return the reduction of a loss, for which there were two flags once."""
    if size_average is None and reduce is None:
        return reduction
    made = "none" if reduce is False else "sum" if size_average is False else "mean"
    warnings.warn(
        f"size_average and reduce args will be deprecated, please use reduction='{made}' instead.", stacklevel=3
    )
    return made
