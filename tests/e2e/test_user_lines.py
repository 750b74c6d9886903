"""Exceptions and warnings name the user's line: faults at run time on both backends, and calls that NumPy refuses."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.config import BACKENDS
from tracegrad.driver import pipeline
from tracegrad.driver.toolchain import NoCompilerError
from tracegrad.errors import TracegradError

X, ZEROS = np.ones(3), np.zeros((2, 2))


def index(x: Any, i: Any) -> Any:
    y = x * 2.0
    return y[i]  # this line


def index_in_a_loop(x: Any, i: Any) -> Any:
    total = 0.0
    for k in range(3):
        total = total + x[i + k]  # this line
    return total * 2.0


def inverse(a: Any) -> Any:
    b = a * 2.0
    return np.linalg.inv(b).sum()  # this line


def cholesky(a: Any) -> Any:
    return np.linalg.cholesky(a).sum()  # this line


RUN_TIME: list[tuple[Callable[..., Any], tuple[Any, ...], type[Exception]]] = [
    (index, (X, np.array(5)), IndexError),
    (index_in_a_loop, (X, np.array(1)), IndexError),
    (inverse, (ZEROS,), np.linalg.LinAlgError),
    (cholesky, (ZEROS,), np.linalg.LinAlgError),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", RUN_TIME, ids=[f.__name__ for f, _, _ in RUN_TIME])
@pytest.mark.parametrize("transform", [tg.function, tg.grad])
def test_faults_at_run_time(case: Any, backend: str, transform: Any) -> None:
    f, arguments, kind = case
    compiled = transform(f, backend=backend)
    for _ in range(3):
        with pytest.raises(kind) as caught:
            compiled(*arguments)
        assert type(caught.value) is kind
        assert str(caught.value).count("-->") == 1
        assert "test_user_lines.py" in str(caught.value)
        assert "# this line" in str(caught.value)


def ratio(x: Any, n: float) -> Any:
    return float(x[0]) / 2.0 + float(x[1]) / n  # this line


def negative(x: Any) -> Any:
    if x[0] > 0:
        raise ValueError("x is positive")  # this line
    return x.sum()


def last(x: Any, i: Any) -> Any:
    return x[i + 1]


def called(x: Any, i: Any) -> Any:
    return last(x, i) ** 2


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("f", "arguments", "piece"),
    [
        (index, (X, np.array(5)), "y[i]"),
        (inverse, (ZEROS,), "np.linalg.inv(b)"),
        (ratio, (X, 0.0), "float(x[1]) / n"),
        (negative, (X,), 'raise ValueError("x is positive")'),
        (called, (X, np.array(7)), "x[i + 1]"),
    ],
    ids=["index", "inverse", "division", "raise", "in a helper"],
)
def test_the_piece_that_fails_is_marked(f: Any, arguments: Any, piece: str, backend: str) -> None:
    for transform in (tg.function, tg.grad):
        with pytest.raises(Exception) as caught:
            transform(f, backend=backend)(*arguments)
        _, place, line, carets = str(caught.value).splitlines()
        assert place.endswith(f" in {'last' if f is called else f.__name__}")
        start = carets.index("^")
        assert line[start : len(carets)] == piece


def missing_key(p: Any) -> Any:
    return np.sum(p["weights"])


def missing_item(p: Any) -> Any:
    return p["w"].sum() * [1.0, 2.0][2]


@pytest.mark.parametrize(
    ("f", "kind", "piece", "found"),
    [
        (missing_key, KeyError, 'p["weights"]', "the keys 'w', 'b'"),
        (missing_item, IndexError, "[1.0, 2.0][2]", "a list of 2"),
    ],
)
def test_what_there_is_instead_of_a_missing_item(f: Any, kind: type[Exception], piece: str, found: str) -> None:
    with pytest.raises(kind) as caught:
        tg.grad(f)({"w": X, "b": 1.0})
    assert type(caught.value) is kind
    with pytest.raises(kind) as expected:
        f({"w": X, "b": 1.0})
    assert str(caught.value) == str(expected.value)
    place, line, carets, last = caught.value.__notes__[0].splitlines()
    assert place.endswith(f"in {f.__name__}") and last == f"   = found: {found}"
    assert line[carets.index("^") : len(carets)] == piece


def test_a_handler_may_still_catch_a_missing_key() -> None:
    def f(p: Any) -> Any:
        try:
            return np.sum(p["weights"])
        except KeyError:
            return np.sum(p["w"])

    np.testing.assert_array_equal(tg.grad(f)({"w": X})["w"], np.ones(3))


@pytest.mark.parametrize("f", [lambda x: x.sum()(3), lambda x: x.sum() + None, lambda x: np.sum(x)[0, "a"]])
def test_messages_of_python_do_not_name_inner_classes(f: Any) -> None:
    with pytest.raises(Exception) as caught:
        tg.grad(f)(X)
    assert "Tracer" not in str(caught.value)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("to_int", [int, round, math.floor, math.ceil, math.trunc])
@pytest.mark.parametrize(
    ("number", "kind"), [(np.nan, ValueError), (np.inf, OverflowError), (-np.inf, OverflowError), (1e19, OverflowError)]
)
def test_ints_of_what_is_none(to_int: Any, number: float, kind: type[Exception], backend: str) -> None:
    def f(x: Any) -> Any:
        return float(to_int(x[0])) * x[1]

    compiled = tg.function(f, backend=backend)
    with pytest.raises(kind, match="cannot convert float"):
        compiled(np.array([number, 1.0]))
    np.testing.assert_array_equal(compiled(np.array([-3.5, 2.0])), f(np.array([-3.5, 2.0])))
    large = float(np.nextafter(2.0**63, 0.0))
    np.testing.assert_array_equal(compiled(np.array([large, 1.0])), large)


REFUSED: list[tuple[Callable[[Any], Any], type[Exception]]] = [
    (lambda x: np.sum(x, axis=3), np.exceptions.AxisError),
    (lambda x: np.einsum("ij,j->i", x, x), ValueError),
    (lambda x: np.linalg.solve(np.outer(x, x), np.ones(2)), ValueError),
    (lambda x: np.linalg.cholesky(np.ones((2, 3)) * x[0]), np.linalg.LinAlgError),
    (lambda x: np.stack([x, np.ones(2)]), ValueError),
    (lambda x: np.sum(x, foo=3), TypeError),
    (lambda x: x.foo, AttributeError),
]


@pytest.mark.parametrize(("f", "kind"), REFUSED)
def test_calls_that_numpy_refuses(f: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind) as caught:
        tg.function(f)(X)
    assert isinstance(caught.value, TracegradError)
    assert type(caught.value).__name__ == kind.__name__
    assert caught.value.code == "TG138"
    assert "test_user_lines.py" in str(caught.value)


def test_attributes_that_may_be_missing() -> None:
    assert tg.function(lambda x: x * (2.0 if hasattr(x, "foo") else 3.0))(1.0) == 3.0
    assert tg.function(lambda x: x * getattr(x, "foo", 4.0))(1.0) == 4.0


def test_exceptions_of_user_functions_stay() -> None:
    def refuse(x: Any) -> Any:
        raise ValueError("not this one")

    with pytest.raises(ValueError, match=r"^not this one$"):
        tg.function(lambda x: np.apply_along_axis(refuse, 0, x))(X)


def test_a_generator_as_result() -> None:
    with pytest.raises(TracegradError, match=r"(?s)generator.*list"):
        tg.function(lambda x: (v for v in x))(X)


def test_the_warning_without_compiler_names_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise NoCompilerError("no C compiler", code="TG601", span=None, found="none", help="install one")

    monkeypatch.setattr(pipeline, "_compile_c", fail)
    monkeypatch.setattr(pipeline, "_warned_no_compiler", False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tg.function(lambda x: x * 2.0, backend="c")(1.0)
    assert [w.filename for w in caught] == [__file__]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_key_error_of_the_program_keeps_its_key(backend: str) -> None:
    def f(x):
        if x[0] > 0:
            raise KeyError("weights")  # this line
        return x.sum()

    for transform in (tg.function, tg.grad):
        with pytest.raises(KeyError) as caught:
            transform(f, backend=backend)(X)
        assert caught.value.args == ("weights",)
        (note,) = caught.value.__notes__
        assert "# this line" in note and note.count("-->") == 1
