"""Handlers that raise another exception in the place of the first: it is the one that leaves, on both backends."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.test_handlers import POINTS
from tests.capture.test_ragged import slopes


class Unfit(RuntimeError):
    pass


def in_a_body(x):
    try:
        y = math.log(x[0])
    except ValueError as error:
        raise RuntimeError("no log") from error
    return y * x[1]


def with_the_text(x):
    try:
        y = math.log(x[0])
    except ValueError as error:
        raise Unfit(f"no log: {error}") from error
    return y * x[1]


def of_a_class(x):
    try:
        return math.sqrt(x[0])
    except Exception:
        raise RuntimeError from None


def in_a_loop(x):
    total = 0.0
    try:
        for v in x:
            total += math.log(v)
    except ValueError:
        raise RuntimeError("no log")  # noqa: B904
    return total


def raised_in_a_loop(x):
    total = 0.0
    try:
        for v in x:
            if v < 0:
                raise KeyError("k")
            total += v**2
    except LookupError as error:
        raise Unfit("negative") from error
    return total


def one_after_the_other(x):
    try:
        y = 1 / (float(x[0]) - 1.1) + math.log(x[1]) + math.sqrt(x[2])
    except ZeroDivisionError:
        y = float(x[1])
    except ValueError as error:
        raise RuntimeError("domain") from error
    except Exception as error:
        raise KeyError("another") from error
    return y


def goes_on_outside(x):
    try:
        try:
            return math.log(x[0])
        except ValueError as error:
            raise Unfit(f"{error} of {x[0]}", x[1]) from error
    except RuntimeError as error:
        return error.args[1] * 3


def changed_twice(x):
    try:
        try:
            return math.log(x[0])
        except ValueError as error:
            raise KeyError("inner") from error
    except LookupError as error:
        raise RuntimeError("outer") from error


def first_handler_raises_the_same(x):
    try:
        return math.log(x[0])
    except ValueError:
        raise
    except Exception as error:
        raise RuntimeError("never") from error


def in_a_function(x):
    def logarithm(v):
        return math.log(v - 1)

    try:
        return logarithm(x[0]) + logarithm(x[1])
    except ValueError as error:
        raise RuntimeError("in a function") from error


def of_matrices(x):
    try:
        return np.sum(np.linalg.cholesky(np.outer(x, x) + np.diag(x)))
    except np.linalg.LinAlgError as error:
        raise ValueError("not positive definite") from error


def singular(x):
    try:
        return np.sum(np.linalg.solve(np.stack([x[:2], x[:2]]) * (x[0] > 2) + np.diag(x[:2]) * (x[0] < 2), x[:2]))
    except np.linalg.LinAlgError as error:
        raise ValueError("singular") from error


def out_of_bounds(x):
    try:
        return x[int(x[0] * 2)]
    except IndexError as error:
        raise ValueError("no such item") from error


def missing(x):
    d = {1: x[0], 2: x[1]}
    try:
        return d[int(x[0])] * 2
    except KeyError as error:
        raise ValueError("no item") from error


def asserted(x):
    try:
        assert x[0] > 1.2, "small"
    except AssertionError as error:
        raise ValueError(*error.args) from error
    return x[1]


def under_a_condition(x):
    if x[1] > 0:
        try:
            return math.log(x[0]) * x[1]
        except ValueError as error:
            raise RuntimeError("no log") from error
    return x[1]


def in_a_loop_outside(x):
    total = 0.0
    for v in x:
        try:
            total += math.log(v)
        except ValueError as error:
            raise RuntimeError("no log") from error
    return total


def caught_by_a_caller(x):
    def checked(v):
        try:
            return math.log(v)
        except ValueError as error:
            raise Unfit("no log") from error

    total = 0.0
    for v in x:
        try:
            total += checked(v)
        except Unfit:
            total += 3.0 * v
    return total


def counts_and_raises(x):
    n = 0.0
    try:
        try:
            w = math.log(x[0])
        except ValueError:
            n += 1.0
            raise KeyError(x[1])  # noqa: B904
    except KeyError as error:
        w = -error.args[0] * n
    return w + n * x[0]


def counts_in_a_function(x):
    count = [0.0]

    def logarithm(v):
        try:
            return math.log(v)
        except ValueError:
            count[0] += 1
            raise LookupError("no log")  # noqa: B904

    total = 0.0
    for v in x:
        try:
            total += logarithm(v)
        except LookupError:
            total += 3 * v
    return total * (1 + count[0])


def prints_and_raises(x):
    try:
        try:
            w = math.log(x[0])
        except ValueError:
            print("no log")
            raise RuntimeError("no log")  # noqa: B904
        else:
            w = w * 2
        finally:
            y = x[1]
    except RuntimeError:
        w = x[1] * 2
    return w + y


def appends_and_raises(x):
    log, total = [], 0.0
    for v in x:
        try:
            try:
                total += math.log(v)
            except ValueError:
                log.append(1.0)
                raise KeyError("x")  # noqa: B904
        except KeyError:
            total += v * len(log)
    return total


def nothing_catches_it_outside(x):
    n = 0.0
    try:
        try:
            w = math.log(x[0])
        except ValueError:
            n += 1.0
            raise RuntimeError("no log")  # noqa: B904
    except KeyError:
        w = x[1] * n
    return w


def all_print_and_raise(x):
    try:
        try:
            return math.log(x[0])
        except ValueError:
            print("inner")
            raise KeyError("inner")  # noqa: B904
    except KeyError:
        print("outer")
        raise RuntimeError("outer")  # noqa: B904


def three_deep(x):
    try:
        try:
            try:
                return math.log(x[0])
            except ValueError:
                print("inner")
                raise KeyError("inner")  # noqa: B904
        except KeyError:
            print("outer")
            raise
    except LookupError:
        return x[1]


def counts_around_a_loop(x):
    n, total = 0.0, 0.0
    try:
        try:
            for v in x:
                total += math.log(v)
        except ValueError:
            n += 1.0
            raise KeyError("no log")  # noqa: B904
    except KeyError:
        total = (total + x[1]) * n
    return total


class Counter:
    def __init__(self):
        self.n = 0

    def __call__(self, x):
        try:
            return self.logarithm(x)
        except KeyError:
            return x[1] * self.n

    def logarithm(self, x):
        try:
            return math.log(x[0])
        except ValueError:
            self.n += 1
            raise KeyError("no log")  # noqa: B904


def counts_in_an_object(x):
    return Counter()(x)


PROGRAMS = [
    in_a_body,
    with_the_text,
    of_a_class,
    in_a_loop,
    raised_in_a_loop,
    one_after_the_other,
    goes_on_outside,
    changed_twice,
    first_handler_raises_the_same,
    in_a_function,
    of_matrices,
    singular,
    out_of_bounds,
    missing,
    asserted,
    under_a_condition,
    in_a_loop_outside,
    caught_by_a_caller,
    counts_and_raises,
    counts_in_a_function,
    prints_and_raises,
    appends_and_raises,
    nothing_catches_it_outside,
    all_print_and_raise,
    three_deep,
    counts_around_a_loop,
    counts_in_an_object,
]


def outcome(f: Callable[..., Any], x: Any) -> Any:
    try:
        return f(x)
    except (ArithmeticError, AssertionError, LookupError, RuntimeError, ValueError) as error:
        return type(error).__name__, str(error).partition("\n")[0].removeprefix("Unfit: ")


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_as_python(f: Callable[[Any], Any], backend: Any) -> None:
    traced = tg.value_and_grad(f, backend=backend)
    for x in POINTS:
        expected, found = outcome(f, x), outcome(traced, x)
        if isinstance(expected[0] if isinstance(expected, tuple) else expected, str):
            known = "RuntimeError" if expected[0] == "Unfit" else expected[0]
            assert found == (known, expected[1])
            continue
        np.testing.assert_allclose(found[0], expected, rtol=1e-12)
        if x[0] != 1.1 or f is not one_after_the_other:
            np.testing.assert_allclose(found[1], slopes(f, x), rtol=1e-5, atol=1e-5)


def test_a_loop_stays_a_loop_without_flags() -> None:
    source = tg.function(in_a_loop, backend="numpy").source(np.ones(300))
    assert "while" not in source
    assert 'raise RuntimeError("no log")' in source


class Own(Exception):
    pass


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_the_place_is_that_of_the_fault_and_c_knows_exceptions(backend: Any) -> None:
    def f(x):
        try:
            return math.log(x[0])
        except ValueError as error:
            raise Own(f"log of {x[0]}: {error}") from error

    traced = tg.function(f, backend=backend)
    assert traced(np.ones(2)) == 0.0
    with pytest.raises(
        Exception, match=r"Own: log of <value>: math domain error\n.*\n.*return math.log\(x\[0\]\)"
    ) as found:
        traced(-np.ones(2))
    assert type(found.value) is Exception
