"""Nothing that a function reads from outside is stale: each case changes something between calls, and compares every
later call (the first few take the slow path, the next ones the fast path) with Python."""

from __future__ import annotations

import collections
import functools
import math
import os
import random
import sys
import time
import types
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.config import BACKENDS
from tracegrad.errors import CaptureError

Case = tuple[Callable[[float], Any], list[Callable[[], object]]]
CASES: dict[str, Callable[[], Case]] = {}


def case(make: Callable[[], Case]) -> Callable[[], Case]:
    """Register a case: the function, and what changes what it reads."""
    CASES[make.__name__] = make
    return make


def new(**attributes: Any) -> Any:
    """Return an object with attributes."""
    return types.SimpleNamespace(**attributes)


# ---- containers

numbers = [1.0, 2.0]
table: dict[str, float] = {}
chosen: set[int] = set()


@case
def global_list() -> Case:
    numbers[:] = [1.0, 2.0]
    return lambda x: sum(numbers) * x, [
        lambda: numbers.append(4.0),
        lambda: numbers.__setitem__(0, 3.0),
        lambda: numbers.pop(),
    ]


@case
def list_in_a_loop() -> Case:
    values = [1, 2]

    def f(x: float) -> float:
        total = 0.0
        for value in values:
            total += value * x
        return total

    return f, [lambda: values.append(4), lambda: values.__setitem__(0, 7)]


@case
def length() -> Case:
    values = [1.0]
    return lambda x: len(values) * x, [lambda: values.append(4.0)]


@case
def global_dict() -> Case:
    table.clear()
    return lambda x: x * (1 + sum(table.values())), [
        lambda: table.__setitem__("a", 4.0),
        lambda: table.__setitem__("a", 5.0),
    ]


@case
def membership() -> Case:
    return lambda x: x * (2 if "key" in table else 1) * (3 if 7 in chosen else 1), [
        lambda: table.__setitem__("key", 1.0),
        lambda: chosen.add(7),
        lambda: chosen.remove(7),
    ]


@case
def closure_set() -> Case:
    values = {1, 2}
    return lambda x: sum(values) * x, [lambda: values.add(5)]


@case
def nested() -> Case:
    config: dict[str, Any] = {"a": [0, [1.0, 2.0]], "b": ({1},)}
    return lambda x: sum(config["a"][1]) * sum(config["b"][0]) * x, [
        lambda: config["a"][1].append(4.0),
        lambda: config["b"][0].add(4),
    ]


@case
def other_containers() -> Case:
    queue = collections.deque([1.0, 2.0])
    ordered = collections.OrderedDict(a=1.0)
    counts = collections.Counter("aab")
    default = collections.defaultdict(float, a=1.0)
    data = bytearray(b"abc")

    def f(x: float) -> float:
        return x * sum(queue) * sum(ordered.values()) * counts["a"] * sum(default.values()) * len(data)  # type: ignore[no-any-return]

    return f, [
        lambda: queue.append(3.0),
        lambda: queue.__setitem__(0, 9.0),
        lambda: ordered.update(b=3.0),
        lambda: ordered.update(a=7.0),
        lambda: counts.update("a"),
        lambda: default.update(b=2.0),
        lambda: data.append(1),
    ]


class Stack(list[float]):
    """A list of the user's."""


@case
def subclass_of_list() -> Case:
    values = Stack([1.0])
    return lambda x: sum(values) * x, [lambda: values.append(2.0), lambda: values.__setitem__(0, 5.0)]


@case
def arrays_that_are_no_inputs() -> Case:
    texts, objects = np.array(["a", "b"]), np.array([1, None], dtype=object)

    def f(x: float) -> float:
        return x * sum(1 for t in texts if t == "a") * sum(2 for o in objects if o is None)

    return f, [lambda: texts.__setitem__(1, "a"), lambda: objects.__setitem__(0, None)]


@case
def objects_in_a_list() -> Case:
    parts = [new(n=1), new(n=2)]
    return lambda x: x * sum(p.n for p in parts), [lambda: setattr(parts[0], "n", 7), lambda: parts.pop()]


# ---- objects and classes


class Base:
    """Has one of everything that may change."""

    shared: ClassVar[list[float]] = [1.0]
    scale = 2.0
    count = 2

    def __init__(self) -> None:
        self.layers = [1.0, 2.0]
        self.kinds = {1, 2}

    def act(self, x: float) -> float:
        return x

    def data(self, x: float) -> float:
        return sum(self.layers) * sum(self.kinds) * sum(self.shared) * self.scale * self.count * x

    @classmethod
    def by_class(cls, x: float) -> float:
        return cls.scale * x * cls.count

    @staticmethod
    def plain(x: float) -> float:
        return 2 * x

    @property
    def twice(self) -> float:
        return self.scale * 2


class Derived(Base):
    """Overrides one method."""

    def act(self, x: float) -> float:
        return 3 * super().act(x)


def fresh() -> tuple[Any, Any]:
    """Return a copy of the classes, which a case may change."""
    base: Any = type("Base", (Base,), dict(vars(Base)))
    return base, type("Derived", (base,), {"act": lambda self, x: 3 * super(type(self), self).act(x)})


@case
def attributes() -> Case:
    cls, _ = fresh()
    model = cls()
    return model.data, [
        lambda: model.layers.append(4.0),
        lambda: model.kinds.add(4),
        lambda: model.shared.append(4.0),
        lambda: setattr(cls, "shared", [9.0]),
        lambda: setattr(cls, "scale", 5.0),
        lambda: setattr(cls, "count", 5),
        lambda: setattr(model, "scale", 7.0),
        lambda: setattr(model, "count", 7),
    ]


@case
def presence() -> Case:
    item = new()

    def f(x: float) -> float:
        return (x * 2 if hasattr(item, "b") else x) * getattr(item, "c", 3.0) * getattr(item, "d", 3)  # type: ignore[no-any-return]

    return f, [
        lambda: setattr(item, "b", 4.0),
        lambda: setattr(item, "c", 4.0),
        lambda: setattr(item, "d", 4),
        lambda: delattr(item, "b"),
        lambda: delattr(item, "c"),
        lambda: delattr(item, "d"),
    ]


@case
def class_methods() -> Case:
    cls, _ = fresh()
    model = cls()
    return lambda x: model.by_class(x) + cls.by_class(x), [
        lambda: setattr(cls, "scale", 3.0),
        lambda: setattr(cls, "count", 3),
        lambda: setattr(cls, "by_class", classmethod(lambda c, x: 7 * x)),
    ]


@case
def bound_class_method() -> Case:
    cls, _ = fresh()
    return cls.by_class, [lambda: setattr(cls, "scale", 3.0), lambda: setattr(cls, "count", 3)]


@case
def static_methods() -> Case:
    cls, _ = fresh()
    model = cls()
    return lambda x: model.plain(x) + cls.plain(x), [lambda: setattr(cls, "plain", staticmethod(lambda x: 5 * x))]


@case
def properties() -> Case:
    cls, _ = fresh()
    model = cls()
    return lambda x: model.twice * x, [
        lambda: setattr(model, "scale", 55.0),
        lambda: setattr(cls, "twice", property(lambda self: 77.0)),
    ]


@case
def changed_class() -> Case:
    model = Base()

    def f(x: float) -> float:
        return model.act(x) * (2 if isinstance(model, Derived) else 1) * (5 if type(model) is Derived else 1)

    return f, [lambda: setattr(model, "__class__", Derived)]


@case
def methods() -> Case:
    cls, _ = fresh()
    model = cls()
    return lambda x: model.act(x), [
        lambda: setattr(cls, "act", lambda self, x: 4 * x),
        lambda: setattr(model, "act", lambda x: 5 * x),
        lambda: delattr(model, "act"),
    ]


@case
def method_of_the_base() -> Case:
    cls, derived = fresh()
    model = derived()
    return lambda x: model.act(x), [lambda: setattr(cls, "act", lambda self, x: 4 * x)]


@case
def class_of_an_object_made_inside() -> Case:
    cls, _ = fresh()

    def f(x: float) -> float:
        made = cls()
        return made.act(x) * made.scale * made.count * sum(made.shared)  # type: ignore[no-any-return]

    return f, [
        lambda: setattr(cls, "act", lambda self, x: 4 * x),
        lambda: setattr(cls, "scale", 8.0),
        lambda: setattr(cls, "count", 8),
        lambda: cls.shared.append(2.0),
        lambda: setattr(cls, "shared", [3.0]),
    ]


@case
def attributes_of_a_class() -> Case:
    cls, _ = fresh()
    cls.shared = [1.0]
    return lambda x: x * cls.count * cls.scale * sum(cls.shared), [
        lambda: setattr(cls, "count", 5),
        lambda: setattr(cls, "scale", 5.0),
        lambda: cls.shared.append(3.0),
    ]


@case
def functions_in_attributes() -> Case:
    layers = [new(w=2.0, act=math.sin), new(w=2.0, act=math.sin)]

    def f(x: float) -> float:
        for layer in layers:
            x = layer.act(layer.w * x)
        return x

    return f, [
        lambda: setattr(layers[1], "w", 3.0),
        lambda: setattr(layers[1], "act", math.cos),
        lambda: layers.append(new(w=1.0, act=lambda x: x * 2)),
    ]


class Slots:
    """Has no dict."""

    __slots__ = ("n", "values")


@case
def slots() -> Case:
    item = Slots()
    item.n, item.values = 1, [1]
    return lambda x: x * item.n * sum(item.values), [lambda: setattr(item, "n", 7), lambda: item.values.append(4)]


class Container:
    """Behaves as a container does."""

    def __init__(self) -> None:
        self.values = [1, 2]
        self.on = True

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[int]:
        return iter(self.values)

    def __getitem__(self, index: int) -> int:
        return self.values[index]

    def __contains__(self, item: object) -> bool:
        return item in self.values

    def __bool__(self) -> bool:
        return self.on

    def __call__(self, x: float) -> float:
        return x * (2 if self.on else 1)


@case
def special_methods() -> Case:
    item = Container()

    def f(x: float) -> float:
        total = 0.0
        for value in item:
            total += value * x
        return total * len(item) * item[0] * (4 if 99 in item else 1) * (3 if item else 1) + item(x)

    return f, [
        lambda: item.values.append(4),
        lambda: item.values.append(99),
        lambda: setattr(item, "on", False),
        lambda: item.values.__setitem__(0, 6),
    ]


class Generating:
    """Is iterated by a generator, which is not captured."""

    def __init__(self) -> None:
        self.values = [1.0, 2.0]

    def __iter__(self) -> Iterator[float]:
        for value in self.values:
            yield value * factor


factor = 1.0


@case
def generators() -> Case:
    item = Generating()

    def f(x: float) -> float:
        total = 0.0
        for value in item:
            total += value * x
        return total

    return f, [
        lambda: item.values.append(4.0),
        lambda: globals().__setitem__("factor", 3.0),
        lambda: globals().__setitem__("factor", 1.0),
    ]


@case
def objects_in_functions_that_are_not_captured() -> Case:
    items = [new(n=2), new(n=1)]
    key = functools.partial(getattr, items[0])

    def f(x: float) -> float:
        return x * len(vars(items[0])) * len(repr(items[0])) * key("n")  # type: ignore[no-any-return]

    return f, [lambda: setattr(items[0], "n", 100), lambda: setattr(items[0], "m", 5)]


def _read_all() -> float:
    return float(globals()["fac" + "tor"]) + float(eval("factor"))


@case
def globals_under_computed_names() -> Case:
    def f(x: float) -> float:
        return x * _read_all()

    return f, [
        lambda: globals().__setitem__("factor", 3.0),
        lambda: globals().__setitem__("factor", 1.0),
    ]


# ---- functions


def with_list(x: float, values: list[float] = [1.0]) -> float:  # noqa: B006 that is the point
    """Have a default that may change."""
    return sum(values) * x


def with_defaults(x: float, a: float = 2.0, *, b: int = 3, c: tuple[Any, ...] = ([1],)) -> float:
    """Have defaults of both kinds."""
    return a * x * b * sum(c[0])


def copy_of(function: Any) -> Any:
    """Return a copy of a function, which a case may change."""
    made = types.FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__)
    made.__kwdefaults__ = dict(function.__kwdefaults__ or {})
    return made


@case
def mutable_default() -> Case:
    helper = copy_of(with_list)
    helper.__defaults__ = ([1.0],)
    return lambda x: helper(x), [lambda: helper.__defaults__[0].append(5.0)]


@case
def defaults() -> Case:
    helper = copy_of(with_defaults)
    return lambda x: helper(x), [
        lambda: setattr(helper, "__defaults__", (7.0,)),
        lambda: setattr(helper, "__kwdefaults__", {"b": 9, "c": ([1],)}),
        lambda: helper.__kwdefaults__["c"][0].append(2),
        lambda: helper.__kwdefaults__.update(b=4),
    ]


@case
def defaults_of_the_function_itself() -> Case:
    helper = copy_of(with_defaults)
    helper.__kwdefaults__["c"] = ([1],)
    return helper, [
        lambda: setattr(helper, "__defaults__", (7.0,)),
        lambda: setattr(helper, "__kwdefaults__", {"b": 9, "c": ([1],)}),
        lambda: helper.__kwdefaults__["c"][0].append(2),
    ]


@case
def attributes_of_a_function() -> Case:
    helper: Any = copy_of(with_list)
    helper.k, helper.n = 2.0, 2
    return lambda x: x * helper.k * helper.n, [lambda: setattr(helper, "k", 5.0), lambda: setattr(helper, "n", 5)]


@case
def code() -> Case:
    def inner(x: float) -> float:
        return x

    return lambda x: inner(x), [lambda: setattr(inner, "__code__", (lambda x: x * 3).__code__)]


@case
def own_code() -> Case:
    def f(x: float) -> float:
        return x

    return f, [lambda: setattr(f, "__code__", (lambda x: x * 3).__code__)]


@case
def partial() -> Case:
    values = [1.0]
    bound = functools.partial(with_list, values=values)
    return lambda x: bound(x), [lambda: values.append(3.0)]


@case
def closures() -> Case:
    k, values = 2, [1]

    def inner(x: float) -> float:
        return x * k * sum(values)

    def change() -> None:
        nonlocal k, inner
        k = 7

    def replace() -> None:
        nonlocal inner
        inner = lambda x: x * 4

    return lambda x: inner(x), [change, lambda: values.append(5), replace]


# ---- modules


@case
def module_attributes() -> Case:
    module: Any = types.ModuleType("tracegrad_test_config".replace("tracegrad_", "user_"))
    module.rate, module.count, module.values, module.array = 0.5, 3, [1.0], np.ones(2)
    module.function = lambda x: x
    module.sub = types.ModuleType("user_test_config.sub")
    module.sub.k = 2
    sys.modules[module.__name__] = module
    other: Any = types.ModuleType("user_test_config.sub")
    other.k = 11

    def f(x: float) -> float:
        y = module.function(x) * module.rate * module.count * sum(module.values)
        return y * module.array.sum() * module.sub.k * (2 if hasattr(module, "extra") else 1)  # type: ignore[no-any-return]

    return f, [
        lambda: setattr(module, "rate", 0.25),
        lambda: setattr(module, "count", 9),
        lambda: module.values.append(2.0),
        lambda: setattr(module, "values", [4.0]),
        lambda: setattr(module, "array", np.ones(2) * 4),
        lambda: setattr(module, "function", lambda x: x * 8),
        lambda: setattr(module.sub, "k", 5),
        lambda: setattr(module, "sub", other),
        lambda: setattr(module, "extra", 1),
    ]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CASES)
def test_changes_are_seen(name: str, backend: str) -> None:
    f, changes = CASES[name]()
    compiled = tg.function(f, backend=backend)
    for _ in range(4):
        assert compiled(0.5) == pytest.approx(f(0.5), rel=1e-12)
    for number, change in enumerate(changes):
        change()
        expected = f(0.5)
        for _ in range(4):
            assert compiled(0.5) == pytest.approx(expected, rel=1e-12), f"change {number} is not seen"


def test_nothing_is_compiled_again_for_floats() -> None:
    layers = [new(w=2.0, act=math.sin, name="first", sizes=[1, 2]), new(w=2.0, act=math.sin, name="last", sizes=[])]
    config = {"rate": 0.5, "scales": [1.0, collections.deque([2.0])]}
    model = Base()

    def f(x: float) -> float:
        for i, layer in enumerate(layers):
            if len(layers) > 1 and isinstance(layer, types.SimpleNamespace) and hasattr(layer, "w"):
                x = layer.act(layer.w * x) * (i + len(layer.sizes))
        return model.act(x) * model.scale * config["rate"] * config["scales"][0] * config["scales"][1][0]  # type: ignore[index,no-any-return]

    compiled = tg.function(f)
    for value in (1.0, 2.0, 3.0):
        layers[1].w, model.scale, config["rate"] = value, value + 1, value + 2
        config["scales"][1][0] = value  # type: ignore[index]
        assert compiled(0.5) == pytest.approx(f(0.5))
    assert sum(map(len, compiled._specializations._exact.values())) == 1


@pytest.mark.parametrize(
    ("f", "word"),
    [
        (lambda x: x * len(os.environ), "os.environ"),
        (lambda x: x * len(os.environ.get("HOME", "")), "os.environ"),
        (lambda x: x * len(os.getenv("HOME", "")), "getenv"),
        (lambda x: x * random.random(), "random"),
        (lambda x: x * random.uniform(0.0, 1.0), "random"),
        (lambda x: x * time.time(), "time"),
    ],
)
def test_what_changes_by_itself_is_refused(f: Any, word: str) -> None:
    with pytest.raises(CaptureError, match=word) as caught:
        tg.function(f)(1.0)
    assert "test_stale.py" in str(caught.value)
    assert "outside" in str(caught.value)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_stored_is_not_read_from_outside(backend: str) -> None:
    item = new(a=1.0)

    def f(x: float) -> float:
        item.a = 2.0
        return item.a * x  # type: ignore[no-any-return]

    compiled = tg.function(f, backend=backend)
    for _ in range(3):
        item.a = 9.0
        assert compiled(3.0) == 6.0
        assert item.a == 2.0


@pytest.mark.parametrize("backend", BACKENDS)
def test_stores_into_classes_are_done_again(backend: str) -> None:
    cls: Any = type("Counter", (), {"last": 0.0})

    def f(x: float) -> float:
        cls.last = 2.0 * x
        return cls.last + 1.0  # type: ignore[no-any-return]

    compiled = tg.function(f, backend=backend)
    for x in (1.0, 2.0, 3.0):
        assert compiled(x) == 2.0 * x + 1.0
        assert cls.last == 2.0 * x


def test_a_set_from_outside_must_not_change() -> None:
    seen: set[int] = set()

    def f(x: float) -> float:
        seen.add(1)
        return x

    with pytest.raises(CaptureError, match="TG124"):
        tg.function(f)(1.0)
    assert seen == set()
