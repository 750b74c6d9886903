"""Code that Python enters by itself (special methods, properties, descriptors, generators, context managers) is
captured like all other code, and what runs unconverted gets true answers about what a value is."""

from __future__ import annotations

import contextlib
import functools
import itertools
import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.differences import central_differences
from tracegrad.config import BACKENDS
from tracegrad.errors import TracegradError

POINTS = (np.array([1.3, -0.7, 0.9]), np.array([-0.4, 2.1, 0.3]), np.array([0.2, 0.7, -1.1]))
PROGRAMS: list[Callable[[Any], Any]] = []


def program(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    PROGRAMS.append(f)
    return f


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_as_in_python(f: Callable[[Any], Any], backend: str) -> None:
    value, gradient = tg.function(f, backend=backend), tg.grad(f, backend=backend)
    for x in POINTS:
        np.testing.assert_allclose(value(x), f(x), rtol=1e-12)
        np.testing.assert_allclose(gradient(x), central_differences(f, x), atol=1e-5)


# ---- attributes


class Filter:
    def __init__(self) -> None:
        self._p: Any = None

    @property
    def p(self) -> Any:
        return self._p

    @p.setter
    def p(self, value: Any) -> None:
        self._p = value * np.eye(2) if np.isscalar(value) else value


@program
def setter_that_asks_for_a_scalar(x: Any) -> Any:
    k = Filter()
    k.p = x[0]
    return np.sum(k.p[0]) * x[1]


class Wrapped:
    limit = 1.0

    def __init__(self, v: Any) -> None:
        self.v = v

    @property
    def v(self) -> Any:
        return self._v

    @v.setter
    def v(self, value: Any) -> None:
        self._v = min(max(value, -self.limit), self.limit)

    @property
    def angle(self) -> Any:
        return self._angle

    @angle.setter
    def angle(self, value: Any) -> None:
        while value > np.pi:
            value = value - 2 * np.pi
        while value < -np.pi:
            value = value + 2 * np.pi
        self._angle = value

    @angle.deleter
    def angle(self) -> None:
        self._angle = self._angle * 2.0 if self._angle > 0 else self._angle


@program
def setters_that_clamp_and_wrap(x: Any) -> Any:
    c = Wrapped(x[0])
    before = c.v
    c.v = x[1] * x[0]
    c.angle = x[0] * 10
    for _ in range(200):
        c.angle = c.angle + x[1] * 0.1
    del c.angle
    return before * c.v + c.angle * x[2]


class Stores:
    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value if np.isscalar(value) else value * 2)


class StoresBySuper:
    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value if value > 0 else value * 2)


class StoresInDict:
    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__[name] = value if value > 0 else value * 2


@program
def custom_setattr(x: Any) -> Any:
    a, b, c = Stores(), StoresBySuper(), StoresInDict()
    a.v, b.v, c.v = x, x[0], x[1]
    for _ in range(3):
        b.v = b.v * x[1]
    return np.sum(a.v) * b.v + c.v


class Descriptor:
    def __set_name__(self, owner: type, name: str) -> None:
        self.name = f"_{name}"

    def __get__(self, obj: Any, owner: Any = None) -> Any:
        value = getattr(obj, self.name)
        return value * 2 if value > 0 else value

    def __set__(self, obj: Any, value: Any) -> None:
        setattr(obj, self.name, value if value < 1 else value * 3)


class Described:
    a = Descriptor()

    def __init__(self, v: Any) -> None:
        self.v = v

    @functools.cached_property
    def kept(self) -> Any:
        return self.v * 2 if self.v > 0 else self.v

    def __getattr__(self, name: str) -> Any:
        if name == "twice":
            return self.v * 2 if self.v > 0 else self.v * 4
        raise AttributeError(name)

    def __delattr__(self, name: str) -> None:
        self.v = self.v * 2 if self.v > 0 else self.v


@program
def descriptors(x: Any) -> Any:
    d = Described(x[0])
    d.a = x[0]
    d.a += x[1]
    kept = d.kept
    d.v = x[1]
    twice = d.twice + getattr(d, "twice") * getattr(d, "none", x[2])  # noqa: B009
    del d.something
    return d.a * x[2] + kept + d.kept * d.v + twice


class AttributeDict(dict[str, Any]):
    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__  # type: ignore[assignment]
    __delattr__ = dict.__delitem__  # type: ignore[assignment]

    def __missing__(self, key: str) -> Any:
        return self["x"][0] if self["x"][0] > 0 else self["x"][1]


@program
def attribute_dict(x: Any) -> Any:
    d = AttributeDict(t=0.0, x=x)
    for v in x:
        if v > 0:
            d.t = d.t + v * v
    d.u = d.t * 2
    d.w = d.u
    del d.w
    return d.t * d["u"] + d["missing"] + len(d)


# ---- operators


@functools.total_ordering
class Number:
    def __init__(self, v: Any) -> None:
        self.v = v

    def __neg__(self) -> Number:
        return Number(-self.v if self.v > 0 else self.v * 2)

    def __pos__(self) -> Number:
        return Number(self.v if isinstance(self.v, np.ndarray) else self.v * 7)

    def __invert__(self) -> Number:
        return Number(self.v * 3 if np.isscalar(self.v) else self.v)

    def __iadd__(self, other: Number) -> Number:
        if other.v > 0:
            self.v = self.v + other.v
        else:
            self.v = self.v * other.v
        return self

    def __mul__(self, other: Any) -> Number:
        return Number(self.v * other.v if self.v > other.v else self.v + other.v)

    def __radd__(self, other: Any) -> Any:
        return other + self.v if self.v > 0 else other - self.v

    def __divmod__(self, other: Any) -> Any:
        return self.v * 2 if self.v > 0 else self.v, other

    def __rdivmod__(self, other: Any) -> Any:
        return self.v * 3 if self.v > 0 else self.v, other

    def __pow__(self, other: Any, modulo: Any = None) -> Any:
        return self.v**2 if self.v > 0 else self.v

    def __rpow__(self, other: Any) -> Any:
        return self.v * other if self.v > 0 else self.v

    def __lt__(self, other: Number) -> Any:
        return bool(self.v < other.v)

    def __eq__(self, other: object) -> Any:
        return bool(self.v == other.v)  # type: ignore[attr-defined]

    def __bool__(self) -> Any:
        return bool(self.v > 0)

    def __enter__(self) -> Number:
        self.v = self.v * 2 if self.v > 0 else self.v * 5
        return self

    def __exit__(self, *error: Any) -> None:
        self.v = self.v * 3 if self.v < 3 else self.v

    def __iter__(self) -> Any:
        for i in range(3):
            yield self.v * i if self.v > 0 else self.v

    def __reversed__(self) -> Any:
        for i in range(3):
            yield self.v * i + 1 if self.v > 0 else self.v


@program
def operators(x: Any) -> Any:
    a = Number(x[0])
    b = a
    a += Number(x[1])
    c = Number(x[2])
    c *= Number(x[1])
    ways = (-Number(x[0])).v + (+Number(x)).v.sum() + (~Number(x[1])).v + x[1] + Number(x[0]) + sum([Number(x[2])])
    powers = divmod(Number(x[0]), 2)[0] + divmod(3, Number(x[1]))[0] + Number(x[1]) ** 2 + pow(3, Number(x[2]))
    return a.v * b.v + c.v * ways + powers


@program
def comparisons(x: Any) -> Any:
    a, b = Number(x[0]), Number(x[1])
    y = x[0] * 2 if a >= b else x[1] * x[2]
    if a != b and bool(Number(x[2])):
        y = y * x[0]
    return y if not b else y * 3


class Subclass(Number):
    def __rmul__(self, other: Any) -> Any:
        return Number(self.v * 5 if self.v > 0 else self.v)


@program
def reflected_method_of_a_subclass_comes_first(x: Any) -> Any:
    return (Number(x[0]) * Subclass(x[1])).v


class Growing(list[Any]):
    def __iadd__(self, other: Any) -> Growing:  # type: ignore[override,misc]
        self.append(other * 2 if np.isscalar(other) else other)
        return self


@program
def list_with_own_iadd(x: Any) -> Any:
    values = Growing()
    values += x[0]
    return values[0]


class Turn:
    def __init__(self, q: Any) -> None:
        self.q = q

    def __neg__(self) -> Turn:
        return Turn(-self.q)


@program
def object_on_both_sides_of_a_branch(x: Any) -> Any:
    turn = Turn(x * 2)
    if x[0] * x[1] < 0:
        turn = -turn
    return np.sum(turn.q * x)


# ---- iteration


class Steps:
    def __init__(self, x: Any) -> None:
        self.x, self.i = x, 0

    def __iter__(self) -> Steps:
        return self

    def __next__(self) -> Any:
        if self.i >= 3:
            raise StopIteration
        self.i += 1
        return self.x[self.i - 1] if self.x[self.i - 1] > 0 else self.x[self.i - 1] * 2


class Sequence:
    def __init__(self, x: Any) -> None:
        self.x = x

    def __len__(self) -> int:
        return 3

    def __getitem__(self, i: int) -> Any:
        if i >= 3:
            raise IndexError
        return self.x[i] if self.x[i] > 0 else self.x[i] * 2


@program
def iterators(x: Any) -> Any:
    total = 0.0
    for v in Number(x[0]):
        total = total + v * x[1]
    for v in Steps(x):
        total = total * 2 + v
    for v in Sequence(x):
        total = total * 2 + v
    steps = Steps(x)
    total = total + next(steps) * next(steps) + next(steps) + next(steps, 5.0)
    a, b, c = Number(x[0])
    first, *rest = Steps(x)
    total = total + a + b * c + first * sum(rest) + max(*Number(x[1])) + sum([*Steps(x)])
    total = total + sum(list(Number(x[2]))) + sum(v for v in Number(x[0])) + (2.0 if x[0] in Sequence(x) else 1.0)
    return total + sum(reversed(Number(x[2]))) + sum(v * i for i, v in enumerate(reversed(Sequence(x))))


def rows(v: Any) -> Any:
    yield v * 2 if isinstance(v, np.ndarray) else v * 100


def running(x: Any) -> Any:
    total = 0.0
    for v in x:
        if v > 0:
            total = total + v * v
        else:
            total = total - v
        yield total


def filled(x: Any) -> Any:
    a = np.zeros(3)
    for i in range(3):
        a[i] = x[i] ** 2
        yield a


def delegating(x: Any) -> Any:
    yield from running(x)
    yield x[0]


def received() -> Any:
    total = 0.0
    while True:
        v = yield total
        if v is None:
            break
        total = total + (v * v if v > 0 else -v)


def multiples(x: Any) -> Any:
    k = 0
    while True:
        yield x * k
        k += 1


def leaving(x: Any) -> Any:
    try:
        for i in range(2):
            for j, v in enumerate(x):
                if i == 1 and j == 1:
                    break
                if i == 0 and j == 0:
                    continue
                w = v * 2 if v > 0 else v
                yield w
            else:
                yield x[0]
        if len(x) == 3:
            return
        yield x[100]
    finally:
        pass


@program
def generators(x: Any) -> Any:
    total = sum(np.sum(r) for r in rows(x)) + sum(running(x)) + sum(delegating(x)) + sum(leaving(x))
    for a in filled(x):
        total = total + np.sum(a)
    steps = received()
    next(steps)
    for i in range(3):
        total = total + steps.send(x[i])
    total = total + sum(itertools.islice(multiples(x[0]), 4))
    return total + sum(a * b for a, b in zip(multiples(x[1]), x, strict=False))


@program
def generator_in_a_staged_loop(x: Any) -> Any:
    total = 0.0
    for _ in range(300):
        for v in running(x):
            total = total * 0.5 + v
    return total


class Tree:
    def __init__(self, v: Any, *children: Tree) -> None:
        self.v, self.children = v, children

    def __iter__(self) -> Any:
        yield self.v if self.v > 0 else self.v * 3
        for child in self.children:
            yield from child


@program
def recursive_generator(x: Any) -> Any:
    return sum(Tree(x[0], Tree(x[1]), Tree(x[2], Tree(x[0] * x[1]))))


def test_a_yield_under_a_traced_condition_is_refused() -> None:
    def positive(x: Any) -> Any:
        for v in x:
            if v > 0:
                yield v
        return len(x)

    with pytest.raises(TracegradError, match=r"a `yield` stands under a condition .* \[TG101\]"):
        tg.grad(lambda x: sum(positive(x)))(POINTS[0])


# ---- context managers


@contextlib.contextmanager
def scaled(x: Any) -> Any:
    y = x * 2 if isinstance(x, np.ndarray) else x * 100
    if x[0] > 0:
        y = y * 3
    yield y


class Swallows:
    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> bool:
        return True


@program
def contexts(x: Any) -> Any:
    with scaled(x) as y, Number(x[0]) as n:
        total = np.sum(y) * n.v
    with contextlib.ExitStack() as stack:
        m = stack.enter_context(Number(x[1]))
        total = total + m.v
    with Swallows():
        total = total * x[1]
        raise ValueError
    return total + n.v * m.v


# ---- classes


class Made:
    def __new__(cls, v: Any) -> Made:
        made = super().__new__(cls)
        made.v = v * 2 if v > 0 else v  # type: ignore[attr-defined]
        return made


class Meta(type):
    def __call__(cls, v: Any) -> Any:
        return super().__call__(v * 2 if v > 0 else v)


class ByMeta(metaclass=Meta):
    def __init__(self, v: Any) -> None:
        self.v = v * 3 if np.isscalar(v) else v


class Base(ABC):
    def __init__(self, v: Any) -> None:
        self.v = v * 2 if v > 0 else v

    @abstractmethod
    def get(self) -> Any: ...


class Derived(Base):
    def get(self) -> Any:
        return self.v * 3 if self.v > 1.3 else self.v


class Error(Exception):
    def __init__(self, v: Any) -> None:
        self.v = v * 2 if isinstance(v, np.ndarray) else v * 100


@program
def classes(x: Any) -> Any:
    try:
        raise Error(x)
    except Error as error:
        total = np.sum(error.v)
    return total + Made(x[0]).v * ByMeta(x[1]).v + Derived(x[0]).get() * Derived(x[1]).get()


# ---- what a traced value says that it is


@functools.singledispatch
def dispatched(v: Any) -> Any:
    return v * 100.0


@dispatched.register(np.ndarray)
def _of_array(v: Any) -> Any:
    return np.sum(v) * 2.0


@dispatched.register(float)
def _of_float(v: Any) -> Any:
    return v * 3.0


@program
def single_dispatch(x: Any) -> Any:
    return dispatched(x) + dispatched(float(x[0])) + dispatched(x[1])


def unconverted(v: Any) -> Any:
    locals()
    if isinstance(v, np.ndarray):
        return np.sum(v) * 2
    match v:
        case float() if np.isscalar(v) and isinstance(v, numbers.Number):
            return v * 3
    return v * 1000


@program
def asked_in_code_that_runs_unconverted(x: Any) -> Any:
    return unconverted(x) + unconverted(x[0]) + unconverted(float(x[1]))


@program
def scalars_and_arrays(x: Any) -> Any:
    a = np.array(x[0])
    asked = [
        isinstance(a, np.ndarray),
        isinstance(x[0], np.ndarray),
        isinstance(x[0], Iterable),
        isinstance(x, Iterable),
        hasattr(x[0], "__len__"),
        hasattr(x, "__len__"),
        hasattr(float(x[0]), "shape"),
        type(np.sum(x)) is np.float64,
        x.__class__ is np.ndarray,
    ]
    return sum(2.0**k * yes for k, yes in enumerate(asked)) * x[0]


def test_type_in_code_that_runs_unconverted_is_refused() -> None:
    def unfollowed(v: Any) -> Any:
        locals()
        return v * 2 if type(v) is np.ndarray else v

    with pytest.raises(TracegradError, match=r"type\(\) of a traced value in a function that runs as it is"):
        tg.grad(lambda x: np.sum(unfollowed(x)))(POINTS[0])
