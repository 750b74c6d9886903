"""Texts of traced values, identity, membership and order of evaluation do what Python does, or say why they cannot."""

# ruff: noqa: UP031, UP032  (the ways to make a text are what is tested)

from __future__ import annotations

import dataclasses
import logging
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.errors import NeedsPythonValue

X = np.array([1.0, 2.0, 3.0, 4.5])
PARAMS = {**{f"W{i}": np.arange(4.0) + i for i in range(3)}, **{f"b{i}": np.arange(4.0) - i for i in range(3)}}


def text_compared(x: Any) -> Any:
    s = 0.0
    for i in range(4):
        if str(i) == "2":
            s += x[i]
    return s


def text_as_key(x: Any) -> Any:
    d = {}
    for i in range(4):
        d[f"k{i}"] = x[i]
    return d["k1"] * len(d)


def length_of_text(x: Any) -> Any:
    s = 0.0
    for i in range(4):
        s += x[i] * len(str(i * 7)) * len("%03d" % i + f"{i:x}")
    return s


def layers(x: Any) -> Any:
    p = PARAMS
    for i in range(3):
        x = np.tanh(x * p[f"W{i}"] + p["b%d" % i]) + p["W" + str(i)] * p["W{}".format(i)] * p["".join(["b", str(i)])]
    return x.sum()


def text_to_number(x: Any) -> Any:
    s = 0.0
    for i in range(3):
        s += x[i] * float(f"{i}.5") * int("%d" % i) * (3 if isinstance(f"{i}", str) else 5)
    return s


def text_of_size(x: Any) -> Any:
    table = {f"n{len(x)}": 2.0, "(4,)": 3.0, "4": 5.0}
    return x.sum() * table[f"n{len(x)}"] * table[str(x.shape)] * table[repr(len(x))]


def flag_is_true(x: Any) -> Any:
    on, s = False, 0.0
    for i in range(4):
        on = not on
        if on is True:
            s += x[i]
        if on is not False:
            s += 2 * x[i]
        if None is not x:
            s += 1.0
    return s


def in_numbers(x: Any) -> Any:
    s = 0.0
    for v in x:
        if v in (2.0, 3.0):
            s += v
        if v not in [1.0, 3.0]:
            s += 10 * v
        if v in {4.5, 1.0} or v in {2.0: "a"}:
            s += 100 * v
    return s


def in_arrays_and_ranges(x: Any) -> Any:
    s = 0.0
    values = [x[0], x[2]]
    for i in range(4):
        if 3.0 in x:
            s += 1.0
        if i in range(1, 4, 2) or i in range(8, 1, -3):
            s += x[i]
        if x[i] in values:
            s += 50.0
        if i in np.array([1, 2]):
            s += 500.0
    return s


def compared_tuples(x: Any) -> Any:
    s = 0.0
    for i in range(4):
        if (x[i], i) > (2.5, 0):
            s += 1000.0
        if (x[i], i) == (3.0, 2) or [x[i]] != [x[i], 1.0]:
            s += 7.0
        if 2.5 < x[i] < 4 and (x[i], 1) in [(3.0, 1)]:
            s += 3.0
        if (2.0, i) <= (x[1], 1) < (x[i], 5, 6) and (x[1], 3) >= (2.0,):
            s += 0.5
    return s


def right_side_first(x: Any) -> Any:
    def doubled(c: Any) -> Any:
        c[1] = c[1] * 2
        return c

    def last(c: Any) -> int:
        c[1] = c[1] + 1
        return 0

    c = [x[0], x[1]]
    doubled(c)[0] = c[1]
    c[last(c)] = c[1] * c[0]
    box = {"c": c}
    doubled(box["c"])[0], box["c"][1] = c[1], c[0]
    return c[0] * 10 + c[1]


ALL = [
    text_compared,
    text_as_key,
    length_of_text,
    layers,
    text_to_number,
    text_of_size,
    flag_is_true,
    in_numbers,
    in_arrays_and_ranges,
    compared_tuples,
    right_side_first,
]


@pytest.mark.parametrize("function", ALL, ids=lambda f: f.__name__)
@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_as_python(function: Callable[[Any], Any], backend: Any) -> None:
    np.testing.assert_allclose(tg.function(function, backend=backend)(X), function(X), rtol=1e-14)


def test_size_in_text_serves_each_size() -> None:
    def f(x: Any) -> Any:
        return x.sum() * {"4": 2.0, "5": 3.0}[f"{len(x)}"] * {"4": 1.0, "5": 7.0}[str(len(x))]

    g = tg.function(f)
    for n in (4, 5, 4):
        assert g(np.ones(n)) == f(np.ones(n))


class Point:
    def __init__(self, v: Any) -> None:
        self.v = v

    def __str__(self) -> str:
        return f"Point({self.v:.2f})"


class Shown(Point):
    def __format__(self, spec: str) -> str:
        return f"<{self.v:{spec}}>"


@dataclasses.dataclass
class Record:
    a: Any
    b: Any = dataclasses.field(repr=False, default=3)
    c: str = "c"


def prints(x: Any) -> Any:
    print(f"{x[0]:.3f} and {x!s} {len(x)} {x.shape}")
    print("%5.2f|%d|%s|%-6d|%+.1e|%05.1f%%" % (x[0], x[3], x[1], 7, x[2], x[3]), "{0:.2e} {k}".format(x[0], k=x[1]))
    print("%(a)s-%(b).1f" % {"a": x[0], "b": x[1]}, str(x[2]) + "z", "{:>{}.2f}|".format(x[0], 9), "%8.2f|" % x[3])
    for i in range(2):
        print(f"i={i:03d}", "it %02d" % i, format(x[i], ".2f"), sep="|", end="!\n")
    print("no end", x[0], end="")
    print(x[1], end="; ")
    print(x[2])
    print(Point(x[0]), f"{Point(x[1])} {Shown(x[2]):.3f} {Shown(x[2])!s}", str(Point(x[2])))
    print(Record(float(x[0])), f"{Record(float(x[1]))}")
    print(", ".join(f"{v:.2f}" for v in x), "; ".join([f"{v:.1f}" for v in x[:2]]))
    i, s = 0, 0.0
    while s < 3.0:
        s += x[i]
        i += 1
        message = f"{{{i}}}: {s:g}"
        print(message)
    return x.sum()


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_print_formats_at_run_time(backend: Any, capsys: pytest.CaptureFixture[str]) -> None:
    expected = []
    for x in (X, X[::-1].copy()):
        prints(x)
        expected.append(capsys.readouterr().out)
    g = tg.function(prints, backend=backend)
    for x, text in zip((X, X[::-1].copy()), expected, strict=True):
        g(x)
        assert capsys.readouterr().out == text


def test_text_is_as_it_was_when_made(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        y = x.copy()
        text = f"{y}"
        y[0] = 7.0
        print(text)
        return y.sum()

    tg.function(f, backend="numpy")(X)
    assert capsys.readouterr().out == f"{X}\n"


def _raises(x: Any) -> Any:
    y = x[0]
    if y > 0.5:
        raise ValueError(f"bad {y} of {x.shape}")
    return y


def _raises_value(x: Any) -> Any:
    y = x[0]
    if y > 0.5:
        raise ValueError("bad", y)
    return y


def _asserts(x: Any) -> Any:
    y = x[0]
    assert y < 0.5, f"y is {y:.3f}, not %s" % (3,) + str(y)
    return y


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [(_raises, ValueError, r"bad <y> of \(4,\)"), (_raises_value, ValueError, "<y>")],
)
def test_messages_show_names(function: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        tg.function(function)(X)


def test_message_of_an_assertion() -> None:
    def f(x: Any) -> Any:
        y = x[0]
        assert y < 0.5, f"y is {y:.3f} of " + str(x)
        return y

    with pytest.raises(AssertionError, match="y is <y> of <x>"):
        tg.function(f)(X)


class OwnError(Exception):
    def __init__(self, v: Any) -> None:
        super().__init__(f"v is {v:.2f}")
        self.v = v


def test_own_exception_is_raised_as_the_nearest_of_pythons() -> None:
    class TooLarge(ValueError):
        pass

    def f(x: Any) -> Any:
        y = x[0]
        if y > 5.0:
            raise TooLarge("y")
        if y > 0.5:
            raise OwnError(y)
        return y

    g = tg.function(f)
    with pytest.raises(Exception, match="OwnError: v is <y>"):
        g(X)
    with pytest.raises(ValueError, match="TooLarge: y"):
        g(X * 10)


REFUSED: list[Callable[[Any], Any]] = [
    lambda x: x[0] * len(f"{x[1]:.3f}"),
    lambda x: x[0] * (str(x[1]) == "2.0"),
    lambda x: {"2.0": x[0]}[str(x[1])],
    lambda x: x[0] * (f"{x[1]}" in ("a", "2.0")),
    lambda x: x[0] * int("%d" % x[1]),
    lambda x: x[0] * float("{}".format(x[1])[0]),
    lambda x: x[0] * len(repr(x[1])),
    lambda x: x[0] * len(str([x[1], 2])),
    lambda x: x[0] * ("a" < f"{x[1]}"),
    lambda x: x[0] * len(f"{x[1]}".split(".")),
    lambda x: x[0] * len(sorted(f"{x[1]}")),
    lambda x: x[0] * len(f"{Point(x[1])}"),
    lambda x: x[0] * len(str(Record(x[1]))),
    lambda x: x[0] * bool(f"{x[1]}"),
    lambda x: getattr(x, f"a{x[0]}"),
    lambda x: {x[1]: x[0]}[2.0],
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_characters_are_refused(number: int) -> None:
    with pytest.raises(NeedsPythonValue, match="TG101"):
        tg.function(REFUSED[number])(X)


LOGGER = logging.getLogger("tests.text")
MESSAGES: list[Callable[[Any], Any]] = [
    lambda x: logging.warning("pct %s", x),
    lambda x: LOGGER.error(f"w {x[0]}"),
    lambda x: LOGGER.log(logging.ERROR, "w %g", x[0]),
    lambda x: warnings.warn(f"w {x[0]}", stacklevel=1),
    lambda x: warnings.warn(message=f"w {x[0]}", stacklevel=1),
    lambda x: warnings.warn(UserWarning(f"w {x[0]}"), stacklevel=1),
    lambda x: LOGGER.warning("%s", {"x": Shown(x[0])}["x"]),
]


@pytest.mark.parametrize("send", MESSAGES)
def test_messages_with_traced_values_are_refused(send: Any, caplog: pytest.LogCaptureFixture) -> None:
    def f(x: Any) -> Any:
        send(x)
        return np.sum(x)

    with pytest.raises(NeedsPythonValue, match="use print, which writes at run time"):
        tg.grad(f)(X)
    assert not caplog.records


def test_messages_below_the_level_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    def f(x: Any) -> Any:
        LOGGER.debug("x %s", x)
        logging.info(f"x {x[0]}")
        return np.sum(x)

    assert tg.grad(f)(X).tolist() == [1.0] * 4
    assert not caplog.records


def _warns(x: Any) -> Any:
    warnings.warn("deep", stacklevel=2)
    return x


def test_warnings_are_at_the_users_line(caplog: pytest.LogCaptureFixture) -> None:
    def f(x: Any) -> Any:
        for k in range(2):
            x = _warns(x) * k
        warnings.warn("plain", DeprecationWarning, stacklevel=1)
        LOGGER.warning("size %d", len(x))
        return np.sum(x)

    with pytest.warns(Warning) as shown:
        tg.grad(f)(X)
    first = f.__code__.co_firstlineno
    places = {(str(w.message), w.category, w.filename, w.lineno - first) for w in shown}
    assert places == {("deep", UserWarning, __file__, 2), ("plain", DeprecationWarning, __file__, 3)}
    assert caplog.messages == ["size 4"]
