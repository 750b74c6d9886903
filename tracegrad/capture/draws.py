"""Random numbers in captured code: drawn at capture where a generator that the code has made from a constant seed gives
the same ones at every call, refused elsewhere.

Called by calls.py. Previous: natives.py; next: calls.py.

What a draw gives is a constant of the program, and the generator is Python's own object, which is as far as it would be
in Python. So a draw stands where the generator was made, or in a loop that is unrolled.
"""

from __future__ import annotations

import operator
import random
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from tracegrad.capture.context import current, user_span
from tracegrad.capture.numpy_api.common import as_axis, as_known, is_known, wrap_known
from tracegrad.capture.tracer import Tracer, asarray, call_handler, check, is_traced
from tracegrad.errors import CaptureError, NeedsPythonValue


def _sources() -> tuple[type, ...]:
    """Return the classes of sources of random numbers; those of NumPy once it has imported them, which takes time."""
    return (random.Random, *_sources_of_numpy()) if "numpy.random" in sys.modules else (random.Random,)


@cache
def _sources_of_numpy() -> tuple[type, ...]:
    return (np.random.Generator, np.random.RandomState, np.random.BitGenerator, np.random.SeedSequence)


@cache
def _seeded() -> tuple[Any, ...]:
    """Return what makes a source of random numbers from a seed."""
    own = np.random
    bits = (own.PCG64, own.PCG64DXSM, own.MT19937, own.Philox, own.SFC64)
    return (own.default_rng, own.RandomState, own.SeedSequence, random.Random, *bits)


def is_random(f: Any) -> bool:
    """Return whether a function makes a source of random numbers, or is a method of one."""
    own = getattr(f, "__self__", None)
    if isinstance(own, _sources()):
        return True
    module = getattr(f, "__module__", None) or ""
    if module.startswith(("numpy.random", "scipy.stats")):
        return not module.startswith("scipy.stats") or getattr(f, "__name__", "") == "rvs"
    return f is random.Random


def call_random(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Make a source of random numbers, or draw from one.

    Raises:
        CaptureError: the numbers would be others at each call, so that the program would freeze them.
        NeedsPythonValue: the draw is made in a staged loop or branch, or depends on traced values.
    """
    own = getattr(f, "__self__", None)
    if isinstance(own, _sources()) and current().created_depth(own) >= 0:
        return _draw(f, own, args, kwargs)
    if f is np.random.Generator and args and current().created_depth(args[0]) >= 0:
        return _registered(f(*args))
    if getattr(f, "__name__", "") == "rvs" and not _is_fresh((kwargs.get("random_state"),)):
        source = kwargs["random_state"]
        if isinstance(source, _sources()):
            return _draw(f, source, args, kwargs)
        return wrap_known(f(*_plain(args, "rvs"), **_plain(kwargs, "rvs")))
    if f not in _seeded() or _is_fresh((*args, *kwargs.values())):
        raise CaptureError(
            "random numbers would be frozen: the function would use the same draw at every call",
            code="TG108",
            span=user_span(),
            found="a draw of random numbers inside the function",
            help="draw outside the function and pass the numbers in; or, where the same numbers at every call are "
            "meant, make the generator in the function: `rng = np.random.default_rng(0)`",
        )
    return _registered(f(*_plain(args, "a seed"), **_plain(kwargs, "a seed")))


def _is_fresh(seeds: tuple[Any, ...]) -> bool:
    """Return whether a source with these arguments starts somewhere else each time, or shares what lies outside."""
    if not seeds or any(seed is None for seed in seeds):
        return True
    return any(isinstance(seed, _sources()) and current().created_depth(seed) < 0 for seed in seeds)


def _registered(result: Any) -> Any:
    for part in result if isinstance(result, list) else (result,):
        if isinstance(part, _sources()):
            current().register_created(part)
            if isinstance(part, np.random.Generator):
                current().register_created(part.bit_generator)
    return result


def _draw(f: Any, own: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    capture = current()
    if capture.created_depth(own) < capture.depth:
        raise NeedsPythonValue(
            "random numbers are drawn in a staged loop or branch, or a function that stays a call",
            code="TG108",
            span=user_span(),
            found=f"a draw by `{f.__name__}` from a generator that was made before it",
            help="draw all numbers before it, `eps = rng.normal(size=(n, 3))`, and use `eps[i]`; a loop of at most 128 "
            "iterations over Python values may draw",
        )
    capture.note_lasting("a draw of random numbers")
    if is_traced((args, kwargs)) and not is_known((args, kwargs)):
        rule = _OF_TRACED.get(f.__name__)
        if rule is not None:
            return rule(own, *args, **kwargs)
    result = _registered(f(*_plain(args, f.__name__), **_plain(kwargs, f.__name__)))
    return wrap_known(result)


def _plain(value: Any, what: str) -> Any:
    """Return arguments as Python values; a size that is symbolic is the one of this call."""
    if isinstance(value, dict):
        return {key: _plain(item, what) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_plain(item, what) for item in value)
    if not isinstance(value, Tracer) and hasattr(type(value), "as_tracer"):
        return operator.index(value)
    if not is_known(value):
        raise NeedsPythonValue(
            "random numbers depend on a traced value",
            code="TG108",
            span=user_span(),
            found=f"a traced value as an argument of `{what}`"
            if what != "a seed"
            else "a traced value as the seed of a generator",
            help="give a Python value; draws whose distribution is moved or scaled by traced values are written so: "
            "`mean + scale * rng.standard_normal(n)`",
        )
    return as_known(value)


# ---- draws with traced parameters: standard ones, moved and scaled, which is how NumPy makes them


def _size(size: Any, *parameters: Any) -> Any:
    """Return the size of a draw; without one, it is that of the parameters, None for numbers."""
    if size is None:
        size = np.broadcast_shapes(*(asarray(p).shape for p in parameters)) or None
    return _plain(size, "size")


def _require_positive(scale: Any) -> None:
    check(asarray(call_handler(np.all, call_handler(np.greater_equal, scale, 0.0))), "ValueError", "scale < 0")


def _moved(name: str) -> Callable[..., Any]:
    def rule(own: Any, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        _require_positive(scale)
        return loc + scale * wrap_known(getattr(own, name)(size=_size(size, loc, scale)))

    return rule


def _scaled(name: str) -> Callable[..., Any]:
    def rule(own: Any, scale: Any = 1.0, size: Any = None) -> Any:
        _require_positive(scale)
        return scale * wrap_known(getattr(own, name)(size=_size(size, scale)))

    return rule


def _lognormal(own: Any, mean: Any = 0.0, sigma: Any = 1.0, size: Any = None) -> Any:
    return call_handler(np.exp, _OF_TRACED["normal"](own, mean, sigma, size))


def _uniform(own: Any, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
    if isinstance(own, random.Random):
        return low + (high - low) * own.random()
    return low + (high - low) * wrap_known(own.uniform(size=_size(size, low, high)))


def _gauss(name: str) -> Callable[..., Any]:
    return lambda own, mu=0.0, sigma=1.0: mu + sigma * getattr(own, name)(0.0, 1.0)


def _choice(own: Any, a: Any, size: Any = None, replace: Any = True, p: Any = None, *args: Any, **kwargs: Any) -> Any:
    if isinstance(own, random.Random):
        return a[own.randrange(len(a))]
    array = asarray(a)
    axis = as_axis(args[0] if args else kwargs.get("axis", 0), array.ndim)
    count = operator.index(array.shape[axis])
    shuffled = {"shuffle": kwargs["shuffle"]} if "shuffle" in kwargs else {}
    places = own.choice(count, _plain(size, "choice"), replace, _plain(p, "choice"), **shuffled)
    return call_handler(np.take, array, places, axis=axis)


def _permutation(own: Any, x: Any, axis: Any = 0) -> Any:
    array = asarray(x)
    place = as_axis(axis, array.ndim)
    return call_handler(np.take, array, own.permutation(operator.index(array.shape[place])), axis=place)


def _shuffle(own: Any, x: Any, axis: Any = 0) -> None:
    if not isinstance(x, Tracer):  # a list of traced values: Python moves them
        own.shuffle(x)
        return
    x[...] = _permutation(own, x, axis)


_OF_TRACED: dict[str, Callable[..., Any]] = {
    **{name: _moved(name) for name in ("normal", "laplace", "logistic", "gumbel")},
    **{name: _scaled(name) for name in ("exponential", "rayleigh")},
    "lognormal": _lognormal,
    "uniform": _uniform,
    "gauss": _gauss("gauss"),
    "normalvariate": _gauss("normalvariate"),
    "choice": _choice,
    "permutation": _permutation,
    "shuffle": _shuffle,
}
