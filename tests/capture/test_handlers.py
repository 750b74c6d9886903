"""Handlers of faults that come at run time: values and gradients are those of Python on both backends."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.test_ragged import slopes
from tracegrad.errors import CaptureError

POINTS = [
    np.array([1.1, 2.2, 3.1]),
    np.array([3.1, 2.5, 2.2]),
    np.array([-1.1, 0.6, 2.3]),
    np.array([1.7, 1.6, 4.1]),
    np.array([-1.9, -3.1, -1.2]),
    np.array([1.3, 1.1, 1.45]),
]


class Unfit(Exception):
    def __init__(self, number):
        super().__init__(f"number {number}")
        self.number = number


class VeryUnfit(Unfit):
    pass


class Kept(Exception):
    def __init__(self, number):
        super().__init__("kept", number)
        self.number = number


def keeps_the_last_error(x):
    last = None
    for v in x:
        try:
            if v < 2.05:
                raise Kept(v * x[0])
        except Kept as error:
            last = error
    if last is None:
        return x[1]
    return last.number * len(last.args)


def raises_the_last_error(x):
    step, last = x[0], None
    for _ in range(3):
        try:
            result = math.log(step)
            break
        except ValueError:
            last = Kept(step)
            step += 0.6
    else:
        try:
            raise last
        except Kept as error:
            return error.number * x[1]
    return result + (last.number if last else 0.0)


def one_of_two_errors(x):
    error = ValueError(x[0] * x[2])
    if x[1] > x[0]:
        error = ValueError(x[1])
    error.weight = x[2]
    try:
        if x[2] > 2.25:
            raise error
    except ValueError as found:
        return found.args[0] * found.weight
    return error.args[0]


def _logged_factor(a, log):
    log.append(1.0)
    factor = np.linalg.cholesky(a)
    log.append(2.0)
    return factor


def log_determinant(x):
    A = np.outer(x, x) + np.diag(x)
    try:
        L = np.linalg.cholesky(A)
    except np.linalg.LinAlgError:
        return -np.inf
    return np.sum(np.log(np.diag(L)))


def jitter(x):
    A = np.outer(x, x) + np.diag(x - 2.0)
    try:
        L = np.linalg.cholesky(A)
    except np.linalg.LinAlgError:
        L = np.linalg.cholesky(A + 10.0 * np.eye(3))
    return np.sum(L)


def tries_again(x):
    A = np.outer(x, x) + np.diag(x - 2.0)
    j = 0.1
    for _ in range(6):
        try:
            L = np.linalg.cholesky(A + j * np.eye(3))
            break
        except np.linalg.LinAlgError:
            j *= 4
    else:
        return -x[0]
    return np.sum(L) * j


def repeats_without_end(x):
    A = np.outer(x, x) + np.diag(x - 2.0)
    j = 0.1
    while True:
        try:
            L = np.linalg.cholesky(A + j * np.eye(3))
            break
        except np.linalg.LinAlgError:
            j *= 4
    return np.sum(L) * j


def continues(x):
    s = 0.0
    for i in range(3):
        try:
            s += math.log(x[i] - 1.5)
        except ValueError:
            continue
        s *= 2
    return s


def raised_under_a_condition(x):
    y = 0.0
    try:
        if x[0] > 1.5:
            y = x[1]
            raise ValueError("large")
        z = x[0] * 2
    except ValueError as e:
        z = y * 5 + len(str(e))
    return z + x[2]


def inverse(x):
    A = np.array([[x[0], x[1]], [x[1], x[0]]])
    try:
        return np.sum(np.linalg.inv(A)) * x[2]
    except np.linalg.LinAlgError:
        return x[2]


def system(x):
    A = np.array([[x[0], x[1]], [x[1], x[0]]])
    try:
        b = np.linalg.solve(A, x[:2])
    except (KeyError, np.linalg.LinAlgError):
        b = x[1:]
    return b @ b


def list_before_the_fault(x):
    log = []
    A = np.outer(x, x) + np.diag(x)
    try:
        L = _logged_factor(A, log)
        s = np.sum(L)
    except np.linalg.LinAlgError:
        s = x[0]
    return s * len(log) + sum(log)


def stores_before_the_fault(x):
    out = np.zeros(3)
    n = {}

    class Kept:
        pass

    o = Kept()
    o.v = 1.0
    try:
        out[0] = x[0]
        n["a"] = x[1]
        o.v = 2.0
        y = math.log(x[2] - 1.0)
        out[1] = y
        n["a"] = y
        o.v = 5.0
    except ValueError:
        out[2] = 7 * x[2]
        o.v += x[1]
    return np.sum(out) * n["a"] * o.v


def handlers_in_handlers(x):
    try:
        try:
            y = math.sqrt(x[0] - 1.2)
        except ValueError as error:
            raise VeryUnfit(3.0) from error
        z = math.log(x[1] - 1.0)
    except Unfit as e:
        return x[2] * e.number
    except ValueError:
        return x[1] * 2
    return y * z


def faults_in_branches(x):
    try:
        s = x[0]
        if x[1] > 1.0:
            s = s + 1
            t = math.log(x[2] - 1.5)
            s = s * t
        else:
            s = s * 3
        if x[0] > 1.5 and math.log(x[0]) > 0.7:
            s = s * 2
        s = s + (1 / (x[0] - 3.0) if x[0] > 2.5 else x[1])
    except (ValueError, ZeroDivisionError):
        s = s * 10
    return s * x[2]


def faults_in_a_loop(x):
    s = 0.0
    try:
        for v in x:
            s += math.sqrt(v)
    except ValueError:
        s += 10 * x[1]
    return s * x[0]


def raised_in_a_loop(x):
    try:
        for i in range(3):
            if x[i] > 2:
                raise VeryUnfit(i)
    except Unfit as e:
        return x[e.number] * 5
    return x[1]


def item_that_a_growing_list_has_not(x):
    out, s = [], 0.0
    try:
        for v in x:
            if v > 1.2:
                out.append(v)
        s += out.pop()
        s += 2 * out[1]
    except Exception:
        s += x[0] * 3
    return s


def item_of_a_growing_list(x):
    out = []
    for v in x:
        if v > 1.2:
            out.append(v)
    try:
        return out[1]
    except LookupError:
        return x[0] * 3


def finally_with_effects(x):
    r = []
    try:
        try:
            y = math.log(x[0])
            r.append(y)
        finally:
            r.append(x[1])
        r.append(3.0)
    except ValueError:
        r.append(x[2])
        y = 1.0
    return sum(r) * y + len(r)


def index_read(x):
    i = int(x[0] * 2)
    try:
        return x[i] * 2
    except IndexError:
        return x[1]


def index_written(x):
    y = np.zeros(3)
    i = int(x[0] * 2)
    try:
        y[i] = x[1]
        y[0] += 1
    except IndexError:
        y[2] = x[2]
    return np.sum(y * x)


def handlers_in_functions(x):
    def g(v):
        try:
            return math.log(v)
        except ValueError:
            return g2(v)

    def g2(v):
        try:
            return math.sqrt(v + 2)
        except ValueError:
            return -v

    return sum(g(v) * (i + 1) for i, v in enumerate(x))


def handlers_in_comprehensions(x):
    def g(v):
        try:
            return math.log(v - 1)
        except ValueError:
            return v

    s = 0.0
    for i in range(int(np.sum(x > 0))):
        s = s + g(x[i])
    return s + np.sum(np.array([g(v) for v in x]) ** 2)


def bare_handler(x):
    try:
        y = np.linalg.solve(np.outer(x, x) * (x[0] > 1.5) + np.diag(x), x)
    except:  # noqa: E722
        y = x
    return y.sum()


def asserted(x):
    try:
        assert x[0] > 1.5, f"{x[0]}"
    except AssertionError:
        return x[0]
    return x[1]


def error_kept(x):
    msg = None
    try:
        y = math.log(x[0])
    except ValueError as err:
        msg = str(err)
        y = x[1]
    return y + (len(msg) if msg is not None else 0)


def appends(x):
    vals = []
    for v in x:
        try:
            vals.append(math.log(v))
        except ValueError:
            pass
    return sum(vals) / (len(vals) + 1)


def overflows(x):
    try:
        y = math.exp(x[0] * 400)
    except OverflowError:
        y = x[0] * 7
    return y


def else_and_finally(x):
    try:
        y = math.sqrt(x[0])
    except ValueError:
        y = 0.0
    else:
        try:
            y += math.log(x[1] - 1)
        except ValueError:
            y += x[2]
    finally:
        z = x[2]
    return y * z


def stack_of_matrices(x):
    A = np.stack([np.diag(x), np.diag(x + 1), np.outer(x, x) + 2 * np.eye(3)])
    try:
        return np.sum(np.linalg.cholesky(A))
    except np.linalg.LinAlgError:
        return np.sum(x**2)


def gaussian_process(x):
    n = 4
    t = np.arange(n) * 0.5
    K = x[0] * np.exp(-0.5 * (t[:, None] - t[None, :]) ** 2 / x[1] ** 2) + x[2] * np.eye(n)
    y = np.sin(t)
    try:
        L = np.linalg.cholesky(K)
    except np.linalg.LinAlgError:
        return -np.inf
    alpha = np.linalg.solve(L.T, np.linalg.solve(L, y))
    return -0.5 * y @ alpha - np.sum(np.log(np.diag(L))) - 0.5 * n * np.log(2 * np.pi)


def returns_in_a_loop(x):
    for j in [0.0, 0.1, 1.0, 10.0]:
        try:
            L = np.linalg.cholesky(np.outer(x, x) + np.diag(x) * 0.3 + j * np.eye(3))
        except np.linalg.LinAlgError as e:
            last = e
            continue
        return np.sum(L)
    raise last


def under_a_condition(x):
    y = x[0]
    if x[0] > 1.2:
        try:
            y = math.log(x[1] - 1)
        except ValueError:
            y = x[2]
    return y * x[0]


def broad_handler(x):
    try:
        a = [1.0, 2.0, x[0]]
        y = a[2] / (x[1] - 2.0)
        y = math.sqrt(y)
    except Exception:
        y = x[2]
    return y


def methods(x):
    class Model:
        def __init__(self, v):
            self.v = v
            self.fails = 0

        def cov(self, j):
            return np.outer(self.v, self.v) + np.diag(self.v) + j * np.eye(3)

        def chol(self, j=0.0):
            try:
                return np.linalg.cholesky(self.cov(j))
            except np.linalg.LinAlgError:
                self.fails += 1
                if j > 20.0:
                    raise
                return self.chol(2 * j + 1.0)

    m = Model(x)
    L = m.chol()
    return np.sum(L) + m.fails * x[1]


def recursion(x):
    def chol(j, n):
        try:
            return np.linalg.cholesky(np.outer(x, x) + np.diag(x) + j * np.eye(3))
        except np.linalg.LinAlgError as error:
            if n == 0:
                raise VeryUnfit(j) from error
            return chol(j * 3, n - 1)

    return np.sum(chol(0.5, 4))


def dict_in_a_loop(x):
    a, b = x[0], x[1]
    hist = {"n": 0}
    for i in range(3):
        a, b = b, a + x[i]
        try:
            hist["n"] += 1
            a = math.sqrt(a - 1)
            hist["n"] += 10
        except ValueError:
            hist["n"] += 100
            b = b * 0.5
    return a * b + hist["n"]


def returns_in_all_parts(x):
    def inner(i):
        try:
            if i == 1:
                return x[0]
            v = math.log(x[i])
        except ValueError:
            return x[1] * i
        finally:
            pass
        return v * 2

    return inner(0) + inner(1) * inner(2)


def staged_while(x):
    s, k = 0.0, 0
    while s < 3 and k < 10:
        try:
            s += math.sqrt(x[0] - s)
        except ValueError:
            k += 3
            s += 0.5
        k += 1
    return s * x[1] + k


def none_before(x):
    L = None
    try:
        L = np.linalg.cholesky(np.outer(x, x) + np.diag(x))
    except np.linalg.LinAlgError:
        pass
    if L is None:
        return x[0]
    return np.sum(L)


def one_fault_after_the_other(x):
    s = 0.0
    try:
        s += math.log(x[0])
        s += math.sqrt(x[1] - 1)
        s += 1 / float(x[2] - 1)
    except ValueError:
        s += 3 * x[1]
    except ZeroDivisionError:
        s += 7 * x[0]
    return s


def handler_that_may_raise(x):
    try:
        y = math.log(x[0])
    except ValueError as err:
        if x[1] < 0:
            raise RuntimeError("bad") from err
        y = x[2]
    return y * x[1]


def loop_with_else(x):
    s = x[0]
    try:
        for i in range(3):
            if x[i] > 2.1:
                break
            s += math.log(x[i])
        else:
            s *= 2
    except ValueError:
        return s + 100 * x[1]
    return s


def bound_in_an_expression(x):
    try:
        if (y := math.log(x[0])) > 0.5:
            y = y * 2
    except ValueError:
        y = x[1]
    return y * x[2]


def list_index(x):
    lst = [x[0], x[1] * 2]
    try:
        return lst[int(x[2])]
    except IndexError:
        return x[2] * 3


def dict_key(x):
    d = {0: x[0], 1: x[1] * 2}
    try:
        return d[int(x[2])]
    except KeyError:
        return x[2] * 3


def steps(x):
    J = np.array([[x[0], x[1]], [x[1] * 2, x[2]]])
    v = np.array([1.0, 1.0])
    for _ in range(4):
        try:
            step = np.linalg.solve(J * v[0], v - x[:2])
        except np.linalg.LinAlgError:
            break
        v = v - 0.1 * step
    return np.sum(v)


def filter_of_many_steps(x):
    P = x[1] * np.eye(2)
    m = np.zeros(2)
    ll = 0.0
    F = np.array([[1.0, 0.1], [0.0, 1.0]])
    ys = np.sin(np.arange(60) * 0.3)
    try:
        for y in ys:
            P = F @ P @ F.T + x[0] * np.eye(2)
            m = F @ m
            L = np.linalg.cholesky(P + x[2] * np.eye(2))
            s = np.linalg.solve(L, np.array([y, 0.0]) - m)
            ll = ll - 0.5 * s @ s - np.sum(np.log(np.diag(L)))
            m = m + 0.1 * (y - m[0]) * np.ones(2)
            P = 0.9 * P
    except np.linalg.LinAlgError:
        return -np.inf
    return ll


def factor_by_hand(x):
    A = np.outer(x, x) + np.diag(x)
    L = np.zeros((3, 3))
    try:
        for i in range(3):
            for j in range(i + 1):
                s = A[i, j] - L[i, :j] @ L[j, :j]
                if i == j:
                    L[i, j] = math.sqrt(s)
                else:
                    L[i, j] = s / L[j, j]
    except ValueError:
        L[0, 0] += 100.0
    return np.sum(L)


def loop_without_known_end(x):
    y = x[0]
    n = 0
    try:
        while y < 20.0:
            n += 1
            y = y + math.sqrt(10.0 - y)
        y = y * 2
    except ValueError:
        y = x[1] * n + y
    return y


def loop_with_two_handlers(x):
    s = 0.0
    try:
        for i in range(200):
            s += math.sqrt(x[0] - 0.00413 * i)
            s += 1 / float(x[1] - 0.01013 * i - 1.0) * 0.001
            if s > 180:
                raise KeyError("k")
            if s > 150 and x[2] > 2.5:
                break
        else:
            s *= 2
    except ValueError:
        s += x[1]
    except (ZeroDivisionError, KeyError):
        s += x[2]
    return s


def loop_in_two_bodies(x):
    s = 0.0
    try:
        try:
            for i in range(40):
                s += math.log(x[0] - i * 0.0517)
                s += 1 / float(x[1] - i * 0.1013)
        except ZeroDivisionError:
            s += 5.0
        s = s * x[2]
    except ValueError:
        s -= x[2]
    return s


def returned_from_a_loop(x):
    def g(v):
        try:
            for k in range(50):
                v = math.sqrt(v - 0.5)
                if v > 1.5:
                    return v * k
                v = v * 1.2
        except ValueError:
            return v * 10
        return v

    return g(x[0]) + g(x[1])


def loop_that_a_handler_ends(x):
    s = x[0]
    for k in range(30):
        try:
            for v in x:
                s += math.log(v + 0.5 - 0.1013 * k)
        except ValueError:
            break
        if s > 30:
            continue
        s += 1
    return s


def asks_an_outer_handler_too(x):
    total = 0.0
    for v in x:
        try:
            b = math.log(v)
            try:
                c = 1.0 / float(int(b))
            except ZeroDivisionError:
                c = b * b
            total += b * c
        except ValueError:
            total -= v
    return total


def asks_both_handlers_twice(x):
    total = 0.0
    for v in x:
        try:
            b = math.log(v)
            try:
                c = math.sqrt(b) / float(int(v) - 1)
                c = c + 1.0 / float(int(math.log(c)))
            except ZeroDivisionError:
                d = c = b
            else:
                d = b
            total += b * c * d
        except ValueError:
            total -= v
    return total


def asks_an_outer_handler_before_and_after(x):
    total = 0.0
    for v in x:
        try:
            c = math.sqrt(v)
            try:
                c = math.sqrt(c - 0.5) / math.floor(c)
                c = c + math.log(v - 1.2)
            except ZeroDivisionError:
                c = v * v
            total = total + c * c
        except ValueError:
            total -= v
    return total


def suppresses(x):
    y = 0.0
    for v in x:
        with contextlib.suppress(ValueError, ZeroDivisionError):
            y += math.log(v)
            y += 1.0 / float(int(v) - 2)
            if y > 0.9:
                break
            continue
        y += 10.0
    with suppress(LookupError), contextlib.nullcontext(x[0]) as first, suppress(ValueError):
        y += math.log(first)
    return y


def suppresses_in_a_try(x):
    values = []
    try:
        for v in x:
            with suppress(ZeroDivisionError):
                values.append(math.log(v))
                values.append(float(v) / float(int(v) - 2))
            values.append(v)
    except ValueError:
        values.append(x[0] * x[1])
    return sum(values)


class Counted:
    def __init__(self, *kinds):
        self.entered = 0.0

    def __enter__(self):
        self.entered += 1.0

    def __exit__(self, *error):
        self.entered += 1.0


def suppresses_nothing(x, suppress=Counted):
    counted = suppress(ValueError)
    y = x[1]
    try:
        with suppress(ValueError):
            y = math.log(x[0])
    except ValueError:
        y = 2.0 * x[0]
    with counted:
        y *= 2.0
    return y * counted.entered


def dropped_by_return(x):
    def logarithm(v):
        try:
            return math.log(v)
        finally:
            return v * v  # noqa: B012

    y = 0.0
    try:
        y = math.log(x[0]) * math.sqrt(x[1])
    except KeyError:
        y = 1.0
    finally:
        return y + x[0] * logarithm(x[1])  # noqa: B012


def dropped_by_break(x):
    total = 0.0
    for v in x:
        try:
            total += math.log(v)
            if v > 3.0:
                raise Unfit(v)
        except ZeroDivisionError:
            raise Unfit(v) from None
        else:
            total += math.sqrt(v - 1.5)
        finally:
            total += v * v
            if v < 2.0:
                total += 1.0
            continue  # noqa: B012
    while total > 0.0:
        try:
            total = total - math.log(total - 3.0)
        finally:
            break  # noqa: B012
    return total


def dropped_in_a_try(x):
    try:
        try:
            y = math.log(x[0])
        finally:
            if x[1] > 1.0:
                return x[1] * 2.0  # noqa: B012
            raise Unfit(x[1])
    except Unfit as error:
        return error.number * x[0]
    return y


PROGRAMS = [
    filter_of_many_steps,
    factor_by_hand,
    loop_without_known_end,
    loop_with_two_handlers,
    loop_in_two_bodies,
    returned_from_a_loop,
    loop_that_a_handler_ends,
    log_determinant,
    jitter,
    tries_again,
    repeats_without_end,
    continues,
    raised_under_a_condition,
    inverse,
    system,
    list_before_the_fault,
    stores_before_the_fault,
    handlers_in_handlers,
    faults_in_branches,
    faults_in_a_loop,
    raised_in_a_loop,
    item_that_a_growing_list_has_not,
    item_of_a_growing_list,
    finally_with_effects,
    keeps_the_last_error,
    raises_the_last_error,
    one_of_two_errors,
    index_read,
    index_written,
    handlers_in_functions,
    handlers_in_comprehensions,
    bare_handler,
    asserted,
    error_kept,
    appends,
    overflows,
    else_and_finally,
    stack_of_matrices,
    gaussian_process,
    returns_in_a_loop,
    under_a_condition,
    broad_handler,
    methods,
    recursion,
    dict_in_a_loop,
    returns_in_all_parts,
    staged_while,
    none_before,
    one_fault_after_the_other,
    handler_that_may_raise,
    loop_with_else,
    bound_in_an_expression,
    list_index,
    dict_key,
    steps,
    asks_an_outer_handler_too,
    asks_an_outer_handler_before_and_after,
    asks_both_handlers_twice,
    suppresses,
    suppresses_in_a_try,
    suppresses_nothing,
    dropped_by_return,
    dropped_by_break,
    dropped_in_a_try,
]


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args)
    except (ArithmeticError, LookupError, RuntimeError, ValueError, Unfit) as error:
        return type(error).__name__, str(error).partition("\n")[0]


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_as_python(f: Callable[[Any], Any], backend: Any) -> None:
    traced = tg.value_and_grad(f, backend=backend)
    for x in POINTS:
        expected, found = outcome(f, x), outcome(traced, x)
        if isinstance(expected, tuple):
            assert found == expected
            continue
        value, gradient = found
        np.testing.assert_allclose(value, expected, rtol=1e-12)
        assert np.isfinite(gradient).all()
        if np.isfinite(expected):
            np.testing.assert_allclose(gradient, slopes(f, x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_what_is_singular(backend: Any) -> None:
    regular = np.array([2.0, 1.0, 0.5])
    singular = np.array([1.5, 1.5, 0.5])
    for f, gradient in ((inverse, [0.0, 0.0, 1.0]), (system, [0.0, 3.0, 1.0])):
        traced = tg.value_and_grad(f, backend=backend)
        np.testing.assert_allclose(traced(regular)[1], slopes(f, regular), rtol=1e-6, atol=1e-6)
        assert traced(singular)[0] == f(singular)
        np.testing.assert_allclose(traced(singular)[1], gradient)


def division(x):
    total = 0.0
    for v in x:
        try:
            total += 1.0 / (float(v) - 2.0)
        except ZeroDivisionError:
            total += 3.0 * v
    return total


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_division_by_zero(backend: Any) -> None:
    x = np.array([1.0, 2.0, 3.0])
    value, gradient = tg.value_and_grad(division, backend=backend)(x)
    assert value == division(x)
    np.testing.assert_allclose(gradient, [-1.0, 3.0, -1.0])


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_second_derivative_and_batches(backend: Any) -> None:
    def gradient(x):
        return tg.grad(log_determinant, backend=backend)(x)

    x = POINTS[0]
    hessian = tg.hessian(log_determinant, backend=backend)(x)
    expected = [(gradient(x + 1e-6 * e) - gradient(x - 1e-6 * e)) / 2e-6 for e in np.eye(3)]
    np.testing.assert_allclose(hessian, expected, rtol=1e-5, atol=1e-7)
    batch = np.stack(POINTS)
    rows = tg.vmap(log_determinant, backend=backend)(batch)
    np.testing.assert_allclose(rows, [log_determinant(x) for x in batch])


def shown(x):
    print("start", x[0] * 2.0)
    try:
        print("before", x[0] * 1.0)
        y = math.log(x[0])
        print("after", y * 1.0)
    except ValueError:
        y = x[1]
        print("caught", y * 1.0)
    return y


def test_prints_once(capsys: Any) -> None:
    traced = tg.function(shown, backend="numpy")
    for x in (np.array([1.0, 2.0]), np.array([-1.0, 2.0])):
        traced(x)
        found = capsys.readouterr().out
        shown(x)
        assert found == capsys.readouterr().out


def test_an_earlier_statement_draws_once() -> None:
    def f(x):
        rng = np.random.default_rng(0)
        try:
            a = rng.normal() * x[1]
            b = math.log(x[0]) + a
        except ValueError:
            b = x[2]
        return b + rng.normal()

    for x in (np.array([1.5, 2.0, 3.0]), np.array([-1.5, 2.0, 3.0])):
        np.testing.assert_allclose(tg.function(f, backend="numpy")(x), f(x), rtol=1e-14)


def test_an_earlier_statement_is_not_run_again() -> None:
    def f(x):
        total = 0.0
        for k in range(3):
            try:
                for v in x:
                    total += np.sin(v) * k
                y = math.log(x[0])
                total += y
            except ValueError:
                total -= x[1]
        return total

    assert tg.function(f, backend="numpy").source(np.ones(3)).count("    for i in") == 1


def test_a_loop_without_faults_stays_a_loop_of_known_length() -> None:
    def f(x):
        total = 0.0
        try:
            for v in x:
                total += np.sin(v)
        except ValueError:
            total = 0.0
        return total

    source = tg.function(f, backend="numpy").source(np.ones(300))
    assert "for i in range(300)" in source
    assert "while" not in source


class Swallows:
    def __init__(self, *kinds: type[Exception]) -> None:
        self.kinds = kinds

    def __enter__(self) -> Swallows:
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> bool:
        return kind is not None and issubclass(kind, self.kinds)


class Notes:
    def __enter__(self) -> Notes:
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        self.ended = True


@pytest.mark.parametrize("manager", [Notes(), Swallows(ValueError)])
def test_a_context_manager_that_may_swallow_what_comes_at_run_time(manager: Any) -> None:
    def raises(x: Any) -> Any:
        out = 0.0
        with manager:
            out = x * x
            if x > 1.0:
                raise ValueError("large")
            out = 3.0 * x
        return out + 0.0

    def does_not(x: Any) -> Any:
        with manager:
            return x * x

    assert tg.grad(does_not)(2.0) == 4.0
    if isinstance(manager, Swallows):
        with pytest.raises(CaptureError, match="a fault that comes at run time cannot be caught"):
            tg.grad(raises)(2.0)
    else:
        assert tg.grad(raises)(0.5) == 3.0
        with pytest.raises(ValueError, match="large"):
            tg.grad(raises)(2.0)


def breaks_out_of_an_endless_loop(x: Any) -> Any:
    a, b = x[0], x[1]
    try:
        if b > 0.7:
            raise ValueError("large")
        b = 2.0 * b
    except ValueError:
        n = 0
        while True:
            n += 1
            if n > 3:
                break
            b = 0.5 * b
    return a * b


def returns_out_of_an_endless_loop(x: Any) -> Any:
    a, b = x[0], x[1]
    try:
        if b > 0.7:
            raise ValueError("large")
        b = 2.0 * b
    except ValueError:
        while True:
            b = 0.5 * b
            if b < 0.2:
                return a * b
    return a - b


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("function", [breaks_out_of_an_endless_loop, returns_out_of_an_endless_loop])
def test_a_handler_that_leaves_an_endless_loop(function: Callable[..., Any], backend: str) -> None:
    for point in POINTS:
        assert tg.function(function, backend=backend)(point) == pytest.approx(function(point), rel=1e-14)


def test_what_an_outer_handler_catches_is_asked_once() -> None:
    def f(x: Any) -> Any:
        try:
            b = math.log(x)
            try:
                c = math.sqrt(b) / float(math.floor(x))
            except ZeroDivisionError:
                c = b
            b = b * c
        except ValueError:
            b = x
        return b

    text = tg.function(f).source(2.5)
    assert text.count("np.sqrt(") == text.count(" <= 0.0") == text.count(" < 0.0") == 1
