"""Loops that an exception leaves for a handler outside: values are those of Python, and a loop stays a loop."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.agreement import check_agreement
from tests.capture.test_handlers import POINTS
from tracegrad.capture import attempts, trials
from tracegrad.errors import CaptureError


def _newton(a, x):
    for _ in range(50):
        dx = (x**3 - a) / (3 * x**2)
        x = x - dx
        if not np.isfinite(x):
            raise OverflowError("left the line")
        if abs(dx) < 1e-10:
            return x
    raise RuntimeError("no convergence")


def _relax(a, x, n):
    for _ in range(n):
        x = x - 0.3 * (x**2 - a)
        if x > 1.3:
            raise OverflowError("too large")
    return x


def newton(x):
    try:
        root = _newton(x[0], x[1])
    except (RuntimeError, OverflowError):
        root = x[2]
    return root * 2


def newton_with_message(x):
    try:
        root, text = _newton(x[0], x[1]), ""
    except RuntimeError as error:
        root, text = x[2], str(error)
    except ArithmeticError as error:
        root, text = x[2] * 3, str(error)
    return root * len(text) + x[1]


def any_exception(x):
    try:
        root = _relax(x[0], x[1], 9)
    except Exception:
        root = x[2]
    return root * 2


def line_search(x):
    def search(f, x, d, t=1.0):
        before = f(x)
        while f(x + t * d) > before:
            t *= 0.5
            if t < 0.01:
                raise ValueError("no descent")
        return t

    try:
        t = search(lambda z: (z - x[1]) ** 2, x[0], x[2])
    except ValueError:
        t = 0.1 * x[0]
    return x[0] + t * x[2]


class _Simulation:
    def __init__(self, rate):
        self.rate, self.y, self.count = rate, 1.0, 0

    def step(self, h):
        self.y = self.y + h * self.rate * self.y * self.y
        self.count += 1
        if self.y > 5.0:
            raise FloatingPointError("blows up")

    def run(self, n, h):
        for _ in range(n):
            self.step(h)
        return self.y


def simulation(x):
    made = _Simulation(x[0])
    try:
        y = made.run(20, 0.1)
    except FloatingPointError:
        y = made.y * 0.5 + x[1] + made.count
    return y + x[2]


def tries_again(x):
    h, y = 1.0, x[2]
    for _ in range(4):
        try:
            y = _relax(x[0] * h, x[1], 7)
        except OverflowError:
            h *= 0.5
        else:
            break
    return y * h


def state_machine(x):
    def run(values):
        state, total = 0, 0.0
        for v in values:
            if state == 0:
                if v > 2.5:
                    state = 1
                elif v < -1.5:
                    raise ValueError("state 0")
                total += v
            elif state == 1:
                if v < 0.5:
                    raise KeyError("state 1")
                total *= v
                state = 0
        return total

    try:
        return run(x)
    except ValueError:
        return x[0] * 7
    except KeyError:
        return x[1] * 3


def with_finally(x):
    done = [0.0]
    try:
        try:
            r = _relax(x[0], x[1], 9)
        finally:
            done[0] = x[1] * 2
    except OverflowError:
        r = x[2]
    return r + done[0]


def fails_in_finally(x):
    table, b = [0.5, x[0]], x[1]
    try:
        try:
            b = math.acos(b)
        except ValueError:
            b = 2.0 * x[0]
        finally:
            b += table[int(x[0])]
    except IndexError:
        b *= x[2]
    return b


def raises_in_finally(x):
    b = x[1]
    for v in x:
        try:
            try:
                b = math.log(b) + v
            finally:
                if v > 2.0:
                    raise KeyError
                b *= 2.0
        except (ValueError, KeyError):
            b += 3.0
    return b


def through_another_try(x):
    try:
        try:
            r = _relax(x[0], x[1], 9)
        except ZeroDivisionError:
            r = 0.0
    except OverflowError:
        r = x[2]
    return r


def two_helpers(x):
    try:
        r = _relax(abs(x[0]), x[1] * 0.3, 4) + _relax(abs(x[1]) * 0.1, abs(x[2]) * 0.3, 5)
    except OverflowError:
        r = x[1]
    return r


def appends_before(x):
    out = []

    def run(y):
        for _ in range(16):
            y = y * 1.05
            out.append(y)
            if y > 3.0:
                raise FloatingPointError("large")
        return y

    try:
        r = run(x[0])
    except FloatingPointError:
        r = x[1]
    return r + sum(out) * 0.1


def appends_to_an_attribute(x):
    class Log:
        pass

    log = Log()
    log.ys, log.n = [], 0

    def run(y):
        while y < 20.0:
            y = y * 1.35 + 0.6
            log.ys.append(y * x[1])
            log.n += 1
            if y < -3.0:
                raise FloatingPointError("small")
            if log.n > 4:
                raise RuntimeError("many")
        return y

    try:
        r = run(x[0])
    except (FloatingPointError, RuntimeError):
        r = x[1]
    return r + sum(log.ys) * 0.1 + log.n


def writes_before(x):
    a = np.zeros(6)

    def run(y):
        for i in range(6):
            y = y * 1.3
            a[i] = y
            if y > 6.0:
                raise FloatingPointError("large")
        return y

    try:
        r = run(x[0])
    except FloatingPointError:
        r = x[1]
    return r + np.sum(a) * 0.1


def nested_loops(x):
    def run(x):
        s = 0.0
        for i in range(3):
            p = 1.0
            for j in range(i + 2):
                p = p * x[i] + 0.1 * j
                if p > 20.0:
                    raise OverflowError("p")
            s += p
        return s

    try:
        return run(x) * 2
    except ArithmeticError:
        return x[0] * x[1]


class Unfit(Exception):
    def __init__(self, best, k):
        super().__init__("unfit")
        self.best, self.k = best, k


def keeps_numbers(x):
    def run(y):
        for k in range(8):
            y = y - 0.3 * (y * y - x[1])
            if y > 1.4:
                raise Unfit(y, k)
        return y

    try:
        return run(x[0])
    except Unfit as error:
        return x[2] * error.best + error.k


def keeps_arguments(x):
    def run(y):
        while y < 20.0:
            y = y * 1.35 + 0.6
            if y > 6.0:
                raise ValueError(y, "large")
            if y < 0.5:
                raise KeyError("small", y * x[1])
        return y

    try:
        return run(x[0])
    except ValueError as error:
        return x[2] * error.args[0]
    except KeyError as error:
        return error.args[1]


def raises_always(x):
    seen = []
    n = 0

    def run(values):
        nonlocal n
        for v in values:
            n += 1
            seen.append(v)
            raise ValueError("first")

    try:
        run(x)
    except ValueError:
        return x[1] * n + sum(seen)
    return x[0]


def many_iterations(x):
    s = 0.0
    try:
        for k in range(100):
            s += math.sqrt(x[0] - k)
    except ValueError as error:
        s += x[1] * len(str(error))
    return s


def does_more_and_raises(x):
    n, total = 0.0, 0.0
    try:
        try:
            for k in range(50):
                total += math.log(x[k % 3] + 0.1 * k)
        except ValueError:
            n += 1.0
            raise KeyError("no log")  # noqa: B904
    except KeyError:
        total = total * n * x[2]
    return total


def raised_again_under_a_condition(x):
    y = 0.0
    try:
        try:
            if x[0] > 1.2:
                raise ValueError("a")
            y = x[1]
        except ValueError:
            if x[2] > 2.5:
                raise
            y = x[0] * x[1]
    except ValueError as error:
        y = x[2] ** 2 + len(str(error))
    return y


def raised_again_in_a_loop(x):
    y = 0.0
    try:
        try:
            y = math.log(x[0])
        except ValueError:
            for v in x:
                if v > 2.0:
                    raise
                y += v
    except ValueError:
        y += x[2] ** 2
    return y


def raised_again_in_a_helper(x):
    def value(i):
        try:
            return math.log(x[i])
        except ValueError:
            if x[2] > 2.0:
                raise
            return x[i] * 2

    s = 0.0
    try:
        for i in range(3):
            s += value(i)
    except ValueError:
        s *= x[2]
    return s


def raised_again_after_another(x):
    try:
        try:
            y = math.sqrt(x[0])
        except ValueError as first:
            try:
                y = math.log(x[1])
            except ValueError:
                y = x[1]
                if x[2] > -1.5:
                    raise first from None
    except ValueError as error:
        y = x[2] * len(str(error))
    return y


def many_branches(x):
    y = 0.0
    out = []
    try:
        if x[0] > 0.53:
            y += math.log(x[1])
        if x[1] > 0.73:
            y += math.log(x[2] - 0.11)
            out.append(y)
        if x[2] > 0.93:
            y += math.log(x[0] - 0.21)
        if x[0] > 1.13:
            y += math.log(x[1] - 0.31)
        else:
            out.append(x[2])
        if x[1] > 1.33:
            y += math.log(x[2] - 0.41)
        if x[2] > 1.53:
            y += math.log(x[0] - 0.51)
        if x[0] > 1.63:
            y += math.log(x[1] - 1.81)
        if x[1] > 1.73:
            y += math.log(x[2] - 2.31)
    except ValueError:
        y = x[0] * 2 + y
    return y + sum(out)


def branches_in_a_loop(x):
    y = 0.0
    try:
        for v in x:
            if v > 1.03:
                if v > 2.03:
                    y += math.log(v - 1.53)
                else:
                    y += math.sqrt(v - 1.23)
            elif v < -1.03:
                y += math.log(v + 1.83)
            if y > 3.03:
                raise OverflowError("y")
            if v > 2.53:
                y -= 1.0 / float(v - 3.13)
    except ValueError:
        y = y * 2
    except ZeroDivisionError:
        y = y * 3
    except OverflowError as error:
        y = y * 5 + len(str(error))
    return y


def _backtrack(a, b):
    t = 1.0
    while a * t > b:
        t /= 2
        if t < 1e-2:
            raise RuntimeError("stuck")
    return a * t


def while_in_a_helper(x):
    try:
        return _backtrack(x[0] * 3, x[1]) * x[2]
    except RuntimeError:
        return -x[1] * x[2] ** 2


def while_with_an_argument(x):
    a, b = float(x[0]), float(x[1])
    try:
        t = 1.0
        while a * t > b - 0.5:
            t /= 2
            if t < 0.2:
                raise ArithmeticError("stuck", a, t)
    except ArithmeticError as error:
        a = error.args[1] * b * error.args[2]
    return a * x[2]


def while_in_tries_in_a_loop(x):
    a, b, c = float(x[0]), float(x[1]), float(x[2])
    for _ in range(4):
        try:
            n = 0
            while a < 2.0 - b:
                n += 1
                if n > 3:
                    raise ArithmeticError(b, c)
                a = a + math.log(abs(c + a) + 2.0) / 4
            b = b / (1 + c * c)
        except ArithmeticError as error:
            a = error.args[0] * 0.5 + error.args[1]
    return a + b * c


def backtracking_newton(x):
    def solve(u):
        for _ in range(6):
            n = abs(u * u - x[0])
            if n < 1e-9:
                return u
            s = -(u * u - x[0]) / (2 * u)
            t = 1.0
            while abs((u + t * s) ** 2 - x[0]) > (1 - 1e-4 * t) * n:
                t /= 2
                if t < 1e-4:
                    raise ArithmeticError("stuck", u)
            u = u + t * s
        raise RuntimeError("no convergence", u, n)

    out = 0.0
    for start in (1.0, 0.1, -3.0):
        try:
            u = solve(start)
        except ArithmeticError as error:
            out += error.args[1] ** 2 * x[1]
        except RuntimeError as error:
            out += error.args[2] * 1e-3 * x[2]
        else:
            out += u
    return out


def while_behind_a_factorization(x):
    def line(u, n):
        t = 1.0
        try:
            s = np.linalg.solve(np.array([[u, 1.0], [1.0, x[1]]]), np.array([1.0, x[0]]))[0]
        except np.linalg.LinAlgError:
            s = 0.5
        while abs(u - t * s) > n:
            t /= 2
            if t < 1e-4:
                raise ArithmeticError("stuck", u)
        return u - t * s

    out = 0.0
    for start in (1.3, 0.1, -3.0):
        try:
            out += line(start * x[2], 2.0)
        except ArithmeticError as error:
            out += error.args[1] ** 2
    return out


def _bounded(y, x, limit):
    if y > x[1]:
        y = y * 0.7
        if limit is not None and y > limit:
            raise OverflowError("too large")
    return y + x[0]


def raises_in_some_of_the_iterations_at_capture(x):
    y = x[2] * 1.5
    try:
        for limit in (None, 2.4, None, 0.9):
            y = _bounded(y, x, limit)
    except OverflowError:
        y = -y * x[2]
    return y


def raises_in_some_of_the_calls(x):
    y = x[2] * 1.5
    for _ in range(3):
        try:
            for limit in (None, 2.4):
                y = _bounded(y, x, limit)
                try:
                    y = _bounded(y, x, 1.9) + 0.1
                except ArithmeticError:
                    y = _bounded(y * 0.5, x, None)
                y = _bounded(y, x, limit)
        except OverflowError:
            y = y * x[1] - 1.0
    return y


def items_of_an_array_with_two_handlers(x: Any) -> Any:
    table = [0.5, x[0], 2.0 * x[1], -1.0]
    a, b = x[2], x[1]
    try:
        try:
            for item in x:
                b = b + item * table[int(0.5 * a)]
        except (OverflowError, RuntimeError):
            a = 5.0
        if a < -0.21:
            return a * b
    except LookupError:
        b = 9.0
    return a + 2.0 * b


def items_in_a_helper_with_continue(x: Any) -> Any:
    table = [0.5, x[0], -1.0]

    def look_up(p: Any) -> Any:
        total = 0.0
        for item in x:
            for _ in range(5):
                total = total + table[int(p)]
                if item < 0.0 and p > 0.46:
                    continue
                total = total * 0.5
        return total

    try:
        return look_up(x[1])
    except IndexError:
        return 3.0 * x[0]


def several_errors_out_of_written_out_loops(x: Any) -> Any:
    p, b = float(x[2]), float(x[1])
    a = p
    try:
        try:
            for item in [b, p, a]:
                for _ in range(5):
                    if p > 1.5:
                        raise LookupError
                    if b > 3.0:
                        raise OverflowError
                    b = b + item
        except (OverflowError, RuntimeError):
            a = 5.0 * x[0]
    except LookupError:
        b = 9.0
    return a + 2.0 * b


PROGRAMS = [
    *(items_of_an_array_with_two_handlers, items_in_a_helper_with_continue, several_errors_out_of_written_out_loops),
    *(newton, newton_with_message, any_exception, line_search, simulation, tries_again, state_machine, with_finally),
    *(through_another_try, two_helpers, appends_before, appends_to_an_attribute, writes_before, nested_loops),
    *(keeps_numbers, keeps_arguments, raises_always, many_iterations, does_more_and_raises),
    *(raised_again_under_a_condition, raised_again_in_a_loop, raised_again_in_a_helper, raised_again_after_another),
    *(many_branches, branches_in_a_loop, fails_in_finally, raises_in_finally),
    *(while_in_a_helper, while_with_an_argument, while_in_tries_in_a_loop, backtracking_newton),
    *(while_behind_a_factorization, raises_in_some_of_the_iterations_at_capture, raises_in_some_of_the_calls),
]


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_as_python(function: Callable[..., Any], backend: str) -> None:
    check_agreement(function, backend, *POINTS)


@pytest.mark.parametrize("function", [newton, any_exception, simulation, through_another_try, writes_before])
def test_a_loop_is_written_once(function: Callable[..., Any]) -> None:
    forward, _ = tg.grad(function, backend="numpy").source(POINTS[0]).split("# cotangents")
    assert forward.count("while ") == 1
    assert "for " not in "".join(line for line in forward.splitlines() if "#" not in line)


@pytest.mark.parametrize("function", [while_in_a_helper, while_with_an_argument, while_in_tries_in_a_loop])
def test_a_while_loop_stays_one(function: Callable[..., Any]) -> None:
    lines = tg.function(function, backend="numpy").source(POINTS[0]).splitlines()
    assert sum(line.strip().startswith("while ") for line in lines) == 1


class Line:
    """A search along a line, which calls another one; both give up by an exception."""

    class Failed(Exception):
        pass

    def __init__(self, x):
        self.x = x

    def value(self, t):
        v = np.exp(self.x[0] * t) - t * self.x[1] * 4
        if not np.isfinite(v):
            raise FloatingPointError("not finite", t)
        return v

    def zoom(self, low, high, lowest):
        for _ in range(8):
            t = 0.5 * (low + high)
            v = self.value(t)
            if v > lowest:
                high = t
            else:
                if abs(v - lowest) < 0.05:
                    return t
                low, lowest = t, v
        raise Line.Failed(t)

    def search(self):
        before, lowest, t = 0.0, self.value(0.0), self.x[2]
        for k in range(6):
            try:
                v = self.value(t)
            except FloatingPointError as error:
                t = 0.1 * error.args[1]
                continue
            if v > lowest + 0.1 or (k and v >= lowest):
                return self.zoom(before, t, lowest)
            before, lowest, t = t, v, 2 * t
        raise Line.Failed(t)


def nested_searches(x):
    total = x[0]
    for shift in range(2):
        try:
            total = total + Line(x + shift * 0.25).search()
        except Line.Failed as error:
            total = total * 2 + error.args[0]
    return total


def _runs(function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how often bodies of `try` statements run in the capture of a function."""
    runs = []
    start = trials.Trial.__init__

    def counting(self: trials.Trial, *args: Any) -> None:
        runs.append(self)
        start(self, *args)

    monkeypatch.setattr(trials.Trial, "__init__", counting)
    tg.function(function, backend="numpy").source(POINTS[0])
    return len(runs)


@pytest.mark.parametrize(("function", "most"), [(backtracking_newton, 600), (nested_searches, 300)])
def test_what_was_captured_in_vain_is_not_again(
    function: Callable[..., Any], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _runs(function, monkeypatch) < most


def too_many_ways(x):
    def split(a, b, depth):
        if depth == 0:
            raise ArithmeticError((a + b) / 2)
        middle = 0.5 * (a + b)
        if abs(np.exp(-x[0] * middle) - x[1]) < x[2]:
            return middle
        return split(a, middle, depth - 1) + split(middle, b, depth - 1)

    try:
        return split(0.0, 1.0, 5)
    except ArithmeticError as error:
        return error.args[0] * x[0]


def test_what_would_be_captured_too_often_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "_MOST_RUNS", 300)
    with pytest.raises(tg.errors.CaptureError, match="are captured more than 300 times"):
        tg.function(too_many_ways)(POINTS[0])


def overflows(x):
    def run(y):
        for _ in range(20):
            y = y * y * y - y * y * 2.0
            if np.isnan(y) or np.isinf(y):
                raise OverflowError
        return y

    try:
        y = run(x[0])
    except OverflowError:
        y = x[1]
    return y * x[2]


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_what_overflows_before_the_handler_goes_on_has_no_gradient(backend: str) -> None:
    with np.errstate(all="ignore"):
        check_agreement(overflows, backend, *(np.array([first, 2.0, 0.7]) for first in (1.3, 0.4, -3.3, 30.3)))


def test_branches_that_may_fail_meet_again() -> None:
    lines = len(tg.grad(many_branches, backend="numpy").source(POINTS[0]).splitlines())
    assert lines < 2000  # a path for each of their sides would be 256


def test_a_condition_of_a_loop_that_fails_is_refused() -> None:
    def f(x):
        y = x[0]
        try:
            while math.log(y) > -0.5:
                y = y - x[1]
        except ValueError:
            return x[1]
        return y

    with pytest.raises(CaptureError, match=r"in the condition of a loop") as caught:
        tg.function(f)(np.array([2.0, 0.7, 0.1]))
    assert caught.value.code == "TG137"
