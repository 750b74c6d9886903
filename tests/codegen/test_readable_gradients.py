"""The text of gradients: what a person would write for elements, squares and sweeps, with the names of the user."""

from __future__ import annotations

import linecache
import math
import re
from typing import Any

import numpy as np
import pytest

import tracegrad as tg

Y = np.array([0.1, 0.5, 0.3, 0.2])


def text_of(function: Any, *arguments: Any) -> str:
    gradient = tg.grad(function, argnums=tuple(range(len(arguments))), backend="numpy")
    found = gradient(*arguments)
    found_by_c = tg.grad(function, argnums=tuple(range(len(arguments))), backend="c")(*arguments)
    for a, b in zip(found, found_by_c, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    return gradient.source(*arguments)


def has_guard(text: str) -> bool:
    return "zero stays zero" in text or "isfinite" in text


def variances(w: Any, r: Any) -> Any:
    n = len(r)
    h = np.ones(n)
    for t in range(1, n):
        h[t] = w[0] + w[1] * r[t - 1] ** 2 + w[2] * h[t - 1]
    return np.sum(np.log(h) + r**2 / h)


def test_names_survive_writes_and_belong_to_one_sweep() -> None:
    text = text_of(variances, np.array([0.1, 0.2, 0.3]), Y)
    assert "carried" not in text
    assert "h = np.ones(4)" in text
    assert "ct_h = 1.0 / h - " in text
    assert "ct_w = np.array([ct_w_0, ct_w_1, ct_w_2])" in text
    primal, reverse = text.split("# cotangents")
    assert "ct_" not in primal
    assert reverse.count("test_readable_gradients.py:") >= 2  # lines of the user's stand in the second half too


def elements(x: Any, y: Any) -> Any:
    z = x * 2
    z[0] = y * z[1]
    z[1] += y
    return np.sum(z**2)


def test_elements_are_indexed() -> None:
    text = text_of(elements, Y, 2.0)
    assert "z[0] = y * " in text
    assert "z[1] += y" in text
    assert "ct_z[1] += " in text
    assert "np.reshape" not in text
    assert ".copy()" not in text


def test_product_with_itself_is_a_square() -> None:
    text = text_of(lambda q, v: q * np.sum(v * v), 2.0, Y)
    assert "ct_v = q * (2.0 * v)" in text


def test_a_choice_is_made_once() -> None:
    text = tg.grad(lambda x: np.nanmean(x), backend="numpy").source(np.array([1.0, np.nan]))
    assert text.count("np.where(") == 1


def tanh_of(w: Any, x: Any) -> Any:
    h = np.zeros(3)
    hs = np.zeros((5, 3))
    for t in range(5):
        h = np.tanh(w @ h + x[t])
        hs[t] = h
    return np.sum(hs**2)


def test_heading_stands_before_the_first_cotangent() -> None:
    text = text_of(tanh_of, np.ones((3, 3)) / 4, np.ones((5, 3)))
    primal, reverse = text.split("# cotangents")
    assert "hs[t] = h" in primal
    assert "2.0 * hs" in reverse


def scalar_filter(q: Any, r: Any, z: Any) -> Any:
    x, P, nll = 0.0, 1.0, 0.0
    for t in range(len(z)):
        P = P + q
        S = P + r
        K = P / S
        e = z[t] - x
        nll += 0.5 * (np.log(S) + e * e / S)
        x = x + K * e
        P = (1 - K) * P
    return nll


def cross_entropy(w: Any, x: Any) -> Any:
    z = x[:, None] * w
    z = z - np.max(z, axis=1, keepdims=True)
    logp = z - np.log(np.sum(np.exp(z), axis=1, keepdims=True))
    return -np.mean(logp[np.arange(4), np.array([0, 1, 1, 0])])


def test_no_guard_where_a_division_is_checked_and_exponentials_stay_small() -> None:
    assert not has_guard(text_of(scalar_filter, 0.1, 0.5, Y))
    assert not has_guard(text_of(cross_entropy, np.array([0.5, 0.2]), Y))


def test_no_guard_of_tangents_where_partials_are_finite() -> None:
    def loss(x: Any) -> Any:
        return np.sum(np.sqrt(1 + x**2) + 1 / (1 + np.exp(-np.abs(x))))

    assert not has_guard(tg.hessian(loss, backend="numpy").source(Y))
    root = tg.hessian(lambda x: np.sum(np.sqrt(x)), backend="numpy")
    np.testing.assert_allclose(root(np.array([0.0, 4.0]))[1], [0.0, -1 / 32])


def test_the_peak_of_logsumexp_has_no_derivative() -> None:
    special = pytest.importorskip("scipy.special")
    functions = (special.logsumexp, lambda x: special.softmax(x)[0], lambda x: special.log_softmax(x)[0])
    for function in functions:
        assert "==" not in text_of(function, Y).replace("== -np.inf", "")  # where there is no peak


def test_branches_and_indices_read_as_the_user_wrote_them() -> None:
    def least_cost(cost: Any) -> Any:
        d = np.zeros((3, 4))
        for i in range(3):
            for j in range(4):
                if i == 0 and j == 0:
                    d[i, j] = cost[i, j]
                elif i == 0:
                    d[i, j] = d[i, j - 1] + cost[i, j]
                elif j == 0:
                    d[i, j] = d[i - 1, j] + cost[i, j]
                else:
                    d[i, j] = min(d[i - 1, j], d[i, j - 1]) + cost[i, j]
        return d[-1, -1]

    text = text_of(least_cost, np.arange(12.0).reshape(3, 4) ** 2 % 7)
    assert text.count("        elif i == 0:  # ") == text.count("        elif j == 0:  # ") == 2
    assert "ct_d[i - 1, j] += " in text


def test_conditions_read_as_the_user_wrote_them() -> None:
    def damped(x: Any) -> Any:
        y, k = x, 0
        while np.max(np.abs(y)) > 0.1 or np.sum(y) < -50 or np.prod(y) > 3:
            y = y * 0.5 * np.cos(x)
            k += 1
            if np.max(y) < 0.1 and np.sum(y) < 0.5 and k > 2:
                break
        return np.sum(y * x)

    def prefix(x: Any) -> Any:
        y, i = x[0], 0
        while i < len(x) and x[i] > 0.5:
            y = y + np.sin(x[i]) * y
            i += 1
        return y

    def steady(x: Any) -> Any:
        y, n = 1.0, 0
        while abs(np.cos(y * x[0]) - y) > 1e-8:
            y = np.cos(y * x[0])
            n += 1
            if n > 100:
                break
        return y

    text = text_of(damped, Y)
    assert "    while not stopped and (np.max(np.abs(y)) > 0.1 or y.sum() < -50.0 or y.prod() > 3.0):" in text
    assert "        if y.max() < 0.1 and y.sum() < 0.5 and k > 2:" in text
    assert f"    while i < {len(Y)} and x[i] > 0.5:" in text_of(prefix, Y)
    assert "    while not stopped and np.abs(np.cos(y * x_0) - y) > 1e-08:" in text_of(steady, Y)
    assert "    while (!stopped && fabs(cos(y*x[0]) - y) > 1e-08) {" in tg.grad(steady).source(Y, backend="c")


def test_batches_of_loops_say_only_what_is_needed() -> None:
    def growth(a: Any, b: Any) -> Any:
        y = a
        while y < 10:
            y = y * b + 1
        return y

    def waves(x: Any, n: Any) -> Any:
        total = 0.0
        for i in range(n):
            total = total + np.sin(x * i)
        return total

    a, b = np.array([0.5, 1.0, 2.0]), np.array([1.5, 2.5, 3.5])
    text = tg.vmap(tg.grad(growth)).source(a, b)
    assert "trips_1 = trips + 1" in text  # a count needs no other element's value
    assert "for k in reversed(range(trips.max())):" in text
    assert "first = np.argmax(active)" in text
    text = tg.vmap(tg.grad(waves)).source(a, np.array([1, 2, 3]))
    assert "for i in reversed(range(n.max())):" in text
    assert "below = i < n" in text
    assert "broadcast" not in text
    text = tg.vmap(tg.hessian(lambda x: np.sum(x**3))).source(np.ones((2, 3)))
    assert "    rows = np.zeros((2, 3, 3))\n" in text
    assert "undefined" not in text


def test_short_rows_are_written_out() -> None:
    def states(x: Any, a: Any) -> Any:
        for _ in range(3):
            s, i, _ = x
            x = x + 0.1 * np.array([-a * s * i, a * s * i - i, i])
        return np.sum(x**2)

    text = text_of(states, np.array([0.9, 0.1, 0.0]), 0.5)
    assert "np.pad" not in text
    assert "np.array([" in text


def test_signs_meet_sums() -> None:
    text = text_of(lambda p, x: np.sum(np.log(p) - x * np.log(1 - p)) - np.sum((x - np.mean(p)) ** 2), Y, Y)
    assert "- -" not in text
    assert "+ -" not in text
    assert "np.sum(-" not in text


def test_names_of_users_do_not_bring_helpers_along() -> None:
    text = tg.grad(lambda gamma, x: gamma * np.sum(x), backend="numpy").source(2.0, Y)
    assert "def gamma" not in text


def test_chosen_elements_are_added_to_directly_when_they_are_distinct() -> None:
    labels = np.array([0, 1, 1, 0])
    text = tg.grad(lambda x: np.sum(x[np.arange(4), labels] ** 2), backend="numpy").source(np.ones((4, 2)))
    assert "np.add.at" not in text
    text = tg.grad(lambda x: np.sum(x[labels] ** 2), backend="numpy").source(Y)
    assert "np.add.at" in text


def test_temporaries_of_the_sweep_are_called_cotangents() -> None:
    def pull(k: Any, x: Any) -> Any:
        s, total = np.zeros(4), 0.0
        for t in range(3):
            total += np.exp(-total * x[t])
            s[t + 1] = s[t] + k * x[t] * total
        return np.sum(s**2)

    text = text_of(pull, 0.5, Y)
    primal, reverse = text.split("# cotangents")
    assert "total_stack.append(total)" in primal
    assert "total = total_stack.pop()" in reverse
    assert "x_t = x[t]" in text
    assert "ct_s_t_next = ct_s[t + 1]" in reverse
    assert "item" not in text
    assert "kept" not in text


def test_cotangents_of_scalars_are_summed_after_loops_or_inside() -> None:
    def decay(k: Any, x: Any) -> Any:
        for _ in range(3):
            x = x - k * x**2
        return np.sum(x**2)

    small = text_of(decay, 0.5, Y)
    assert "ct_k_spread = np.zeros(4)" in small
    assert "    ct_k = ct_k_spread.sum()" in small.splitlines()
    assert "ct_k = np.float64(0.0)" in text_of(decay, 0.5, np.full((50, 40), 0.5))


def test_what_two_comparisons_hide_is_chosen_once() -> None:
    def follow(gain: Any, x: Any) -> Any:
        total = 0.0
        for _ in range(5):
            u = np.clip(gain * (1 - x), -0.5, 0.5)
            x = x + 0.1 * u
            total += x**2
        return total

    text = text_of(follow, 2.0, 0.1)
    assert text.count("either = below or above") == 1
    assert "0.0 if above" not in text


def test_second_derivatives_have_names() -> None:
    text = tg.hessian(lambda x: np.sum(x[1:] * x[:-1] ** 2), backend="numpy").source(Y)
    assert "unit[direction] = 1.0" in text
    assert "carried" not in text
    assert "0.0 - " not in text
    assert "0.0 + " not in text


def growth(state: Any, rates: Any) -> Any:
    return np.array([rates[0] * state[0] - rates[1] * state[0] * state[1], rates[2] * state[0] * state[1]])


def populations(log_rates: Any, start: Any) -> Any:
    rates, state, path = np.exp(log_rates), np.exp(start), np.zeros((3, 2))
    for step in range(6):
        state = state + 0.1 * growth(state + 0.05 * growth(state, rates), rates)
        if (step + 1) % 2 == 0:
            path[(step + 1) // 2 - 1] = state
    return np.sum(np.log(path))


def test_no_guard_of_products_with_what_reaches_the_result_anyway() -> None:
    # the last steps may be read by nobody, but a rate that overflows is infinite in all steps
    assert not has_guard(text_of(populations, np.zeros(3), np.zeros(2)))


def test_no_guard_where_every_iteration_is_read_by_the_next() -> None:
    def power_iteration(a: Any) -> Any:
        v, value, before = np.ones(2), 0.0, 1.0
        while abs(value - before) > 1e-9:
            before = value
            v = a @ v / np.sqrt(np.sum((a @ v) ** 2))
            value = v @ a @ v
        return value

    assert not has_guard(text_of(power_iteration, np.array([[2.0, 1.0], [0.5, 1.0]])))


def test_a_guard_is_one_expression_and_explained_once() -> None:
    def shares(alpha: Any, a: Any) -> Any:
        total = 0.0
        for k in range(3):
            alpha = alpha * a[k]
            total += np.log(np.sum(alpha))
            alpha = alpha / np.sum(alpha)
        return total

    text = text_of(shares, np.ones(2), np.ones((3, 2)))
    assert "ct_alpha_1 = np.where(ct_alpha == 0.0, ct_alpha, ct_alpha / total)" in text.replace("_total", "total")
    assert text.count("# zero stays zero, even times infinity") == 1


def test_windows_are_slices() -> None:
    def smoothed(k: Any, x: Any) -> Any:
        out = np.zeros(len(x) - 2)
        for i in range(len(out)):
            out[i] = np.sum(k * x[i : i + 3])
        for i in range(3, len(x)):
            out[0] += x[i - 3 : i] @ k
        return np.sum(out**2)

    text = text_of(smoothed, np.ones(3), np.arange(8.0))
    assert "out[i] = np.sum(k * x[i:i + 3])" in text
    assert "ct_x[i - 3:i] += " in text
    assert "np.arange" not in text and "np.add.at" not in text


def test_windows_of_columns_that_are_written() -> None:
    def halved(k: Any, x: Any) -> Any:
        x, total = x.copy(), 0.0
        for i in range(x.shape[1] - 2):
            total += np.sum(x[:, i : i + 3] * k)
            x[:, i : i + 3] *= 0.5
        return total + np.sum(x**2)

    text = text_of(halved, np.ones(3), np.arange(12.0).reshape(2, 6))
    assert "x[:, i:i + 3] = " in text
    assert "np.arange" not in text


def test_a_window_that_may_leave_the_axis_is_no_slice() -> None:
    def read(x: Any, i: Any) -> Any:
        return np.sum(x[np.arange(3) + i])

    with pytest.raises(IndexError):
        tg.grad(read, backend="numpy")(np.ones(4), 2)
    np.testing.assert_allclose(tg.grad(read, backend="numpy")(np.ones(4), np.int64(-1)), [1.0, 1.0, 0.0, 1.0])


def test_rows_are_taken_apart_and_helpers_make_way_for_names_of_the_user() -> None:
    def infected(log_rates: Any) -> Any:
        beta, gamma = np.exp(log_rates)
        s, i = 0.9, 0.1
        for _ in range(4):
            s, i = s - beta * s * i, i + beta * s * i - gamma * i
        return i + math.gamma(float(gamma))

    text = text_of(infected, np.zeros(2))
    assert "beta, gamma = " in text
    assert "gamma * i" in text


def test_terms_of_one_line_are_one_sum() -> None:
    def force(x: Any, y: Any) -> Any:
        return np.sum(x * y * np.sin(x) + x**2 * y)

    text = text_of(force, Y, Y)
    assert text.count("ct_x = ") == 1


def test_an_index_is_computed_again() -> None:
    def every_third(x: Any) -> Any:
        out = np.zeros(3)
        for k in range(9):
            if (k + 1) % 3 == 0:
                out[k // 3] = np.sin(x[k])
        return np.sum(out**2)

    assert "append" not in text_of(every_third, np.arange(9.0)).replace("item_stack.append", "")


def test_what_was_checked_is_not_checked_again() -> None:
    def distance(x: Any, y: Any) -> Any:
        return math.sqrt(x) * y + math.sqrt(x) / y + 1.0 / y

    text = text_of(distance, 2.0, 3.0)
    assert text.count("math domain error") == text.count("ZeroDivisionError") == 1
    assert "if x < 0.0:" in text


def test_slices_stop_where_the_user_stops_them() -> None:
    def differences(x: Any) -> Any:
        return np.sum((x[2:] - 2 * x[1:-1] + x[:-2]) ** 2)

    text = text_of(differences, np.arange(20.0))
    assert "x[2:] - 2.0 * x[1:-1] + x[:-2]" in text
    assert "ct_x[1:-1] -= " in text


def test_means_and_signs_leave_no_reshapes() -> None:
    def spread(x: Any, a: Any) -> Any:
        return np.var(x) + np.sum(np.linalg.solve(a, x))

    text = text_of(spread, Y, np.eye(4) * 2.0)
    assert "np.reshape" not in text
    assert "(-(" not in text


def test_views_and_constant_arrays_have_the_names_of_the_user() -> None:
    def predict(w: Any, x: Any) -> Any:
        mixing = np.array([[1.0, 2.0], [3.0, 4.0]])
        out = (x @ w)[:, 0]
        h = np.zeros(2)
        for _ in range(3):
            h = mixing @ np.tanh(h) + out[:2] + np.eye(2) @ h
        return np.sum((out - 1.0) ** 2) + np.sum(h**2)

    text = text_of(predict, np.ones((2, 1)), np.ones((3, 2)) / 4)
    assert "MIXING = np.array([[1.0, 2.0], [3.0, 4.0]])" in text
    assert "IDENTITY = np.eye(2)" in text
    assert "out = (x @ w)[:, 0]" in text
    assert "ct_out = 2.0 * (out - 1.0)" in text


def test_flags_say_what_they_are_for() -> None:
    def halve(x: Any) -> Any:
        for _ in range(40):
            step = x / 2
            x = x - step
            if step < 0.1:
                break
        return x * step

    text = text_of(halve, 3.0)
    assert "stopped = True" in text
    assert "if not has_run:" in text or "has_run" not in text
    assert "carried" not in text


def test_transposes_of_outer_products_are_outer_products() -> None:
    def chain(a: Any, v: Any) -> Any:
        for _ in range(3):
            v = np.tanh(v @ a)
        return np.sum(v)

    text = text_of(chain, np.eye(2), np.ones(2))
    assert "np.outer(v" in text
    assert ").T" not in text


@pytest.mark.parametrize("transform", [tg.jacrev, tg.jacfwd, tg.jacobian, tg.hessian])
def test_rows_are_written_where_they_belong(transform: Any) -> None:
    def curve(x: Any) -> Any:
        return np.array([x[0] * x[1], np.sin(x[1]), x[0]])

    def energy(x: Any) -> Any:
        return np.sum(x**3) * x[0]

    made = transform(energy if transform is tg.hessian else curve)
    text = made.source(np.ones(2))
    assert len(re.findall(r"^ +rows\[direction\] = ", text, re.MULTILINE)) == 1
    assert "written" not in text
    assert len(re.findall(r"^ +rows = ", text, re.MULTILINE)) == 1


def relaxed(x: Any) -> Any:
    y = x
    _ = 0
    while _ < 50 and abs(x * y - np.sin(y)) > 1e-3:
        y = y - 0.1 * (x * y - np.sin(y))
        _ = _ + 1
    return y


def powers(x: Any) -> Any:
    y = x
    for _ in range(3):
        y = y * x + _
    return y


def unread(x: Any) -> Any:
    for _ in range(3):
        x = np.sin(x)
    return x


def test_a_throw_away_name_that_is_read_is_a_counter() -> None:
    text = text_of(relaxed, 1.5)
    assert "while trips < 50 and" in text
    assert "trips += 1" in text
    assert "in reversed(range(trips)):" in text
    assert not re.findall(r"^[^#]*\b_\b", text, re.MULTILINE)
    text = tg.function(powers, backend="numpy").source(1.5)
    assert "for k in range(3):" in text
    assert "y = y * x + np.float64(k)" in text
    assert "for _ in range(3):" in tg.function(unread, backend="numpy").source(1.5)


def bent(x: Any, w: Any) -> Any:
    difference = x - w
    return np.sum(np.sin(difference) * (x * x - w * x) * (w * w * x + x))


def test_tangents_of_values_without_names_are_called_after_them() -> None:
    x, w = Y, Y[::-1] + 1.0
    text = tg.hessian(bent, backend="numpy").source(x, w)
    primal, rest = text.split("for direction in range(4):")
    assert "difference_1 = x * x - w * x" in primal
    assert not re.search(r"\bt_", primal)
    assert "t_sin = unit * cos" in rest
    assert "t_difference = 2.0 * (unit * x) - unit * w" in rest
    assert not re.search(r"\bdifference_\d+ = ", rest)
    exact = tg.hessian(bent, backend="c")(x, w)
    np.testing.assert_allclose(tg.hessian(bent, backend="numpy")(x, w), exact, rtol=1e-12)


def likelihood(k: Any, y: Any) -> Any:
    factor = np.linalg.cholesky(k)
    return y @ np.linalg.solve(factor, y) + np.sum(np.tril(k, -1))


def test_triangles_are_called_so() -> None:
    text = text_of(likelihood, np.eye(4) + 0.1, Y)
    _, text = text.split("def likelihood_grad")
    assert "np.tril(" in text
    assert "np.arange" not in text
    assert "np.where" not in text
    assert "transpose_a=True)" in text


def signs(x: Any, s: Any) -> Any:
    return np.sum(np.cos(x * 0.5) / s) - np.sum(np.where(x > 0.2, np.maximum(0.0, x - s), x))


def test_a_number_takes_the_sign_and_stands_on_the_right_of_comparisons() -> None:
    text = text_of(signs, Y, 2.0)
    assert "-(" not in text.replace("*(-(", "")
    assert not re.search(r"0\.0 [=<>]=? ", text)


def scaled_mixture(m: Any, s: Any) -> Any:
    x = np.linspace(0.0, 1.0, 12).reshape(3, 4)
    return np.sum(np.exp(-(((x - m) / np.exp(s)) ** 2)) / np.exp(s))


def test_what_rows_share_is_not_written_out_for_each() -> None:
    text = text_of(scaled_mixture, Y, 0.5 * Y)
    assert "broadcast_to" not in text
    text = tg.hessian(scaled_mixture, argnums=1, backend="numpy").source(Y, 0.5 * Y)
    assert "broadcast_to" not in text


def diffused(u: Any) -> Any:
    for _ in range(3):
        change = np.zeros_like(u)
        change[1:-1] = u[2:] - 2 * u[1:-1] + u[:-2]
        u = u + 0.1 * np.sin(u - change)
    return np.sum(u**2)


def test_differences_are_pushed_and_no_masks() -> None:
    text = text_of(diffused, np.ones((4, 2)))
    assert "_stack.append(" in text
    assert "np.tri" not in text


def orbit(p: Any) -> Any:
    state = np.array([1.0, 0.5])
    energy = 0.0
    for _ in range(3):
        a, b = state
        state = state + 0.1 * np.array([p[0] * a - a * b, a * b - p[1] * b])
        energy = energy + state[0] ** 2
    return energy


def test_a_batch_stacks_columns_and_adds_in_place() -> None:
    points = np.array([[0.3, 0.4], [0.1, 0.2], [0.5, 0.6]])
    mapped = tg.vmap(orbit, backend="numpy")
    np.testing.assert_allclose(mapped(points), [orbit(p) for p in points])
    text = mapped.source(points)
    assert "np.stack(" in text
    assert "np.concatenate" not in text
    assert "energy += " in text
    assert "reshaped" not in text


def newton(a: Any) -> Any:
    x = 1.0
    for _ in range(30):
        slope = 2.0 * x
        if slope == 0.0:
            break
        step = (x * x - a) / slope
        x = x - step
        if abs(step) < 1e-12:
            return x
    raise ArithmeticError("no root")


def root(a: Any) -> Any:
    try:
        return newton(a[0])
    except ArithmeticError:
        return 0.1 * a[0]


def test_a_loop_with_several_ends_has_one_condition() -> None:
    for point, slope in ((2.0, 0.5 / np.sqrt(2.0)), (-2.0, 0.1)):
        text = text_of(root, np.array([point]))
        np.testing.assert_allclose(tg.grad(root)(np.array([point])), [slope], rtol=1e-12)
        loops = [line for line in text.splitlines() if "while" in line and "#" not in line]
        assert loops == ["        while trips < 30 and not (stopped or returned):"]


def settles(x: Any) -> Any:
    old = 0.0
    for k in range(20):
        value = np.sum(np.sqrt(x + k * old))
        if abs(value - old) < 1e-3:
            break
        old = value
    return value


def test_a_loop_that_runs_once_at_least_binds_its_variables() -> None:
    text = text_of(settles, Y)
    assert "has_run" not in text
    assert "UnboundLocalError" not in text


def test_tests_of_ints_are_turned_around_and_positions_are_made_once() -> None:
    def loss(x: Any) -> Any:
        total = 0.0
        for i in range(len(x)):
            total += np.log(np.sum(np.exp(x[i] * np.delete(x, i))))
            if i < 2:
                continue
            total *= x[i]
        return total

    text = text_of(loss, np.linspace(0.1, 0.9, 30))
    assert "not i" not in text
    assert "if i >= 2:" in text
    before, _, after = text.partition("for i in range(30):")
    assert "np.arange(29)" in before
    assert "np.arange" not in after


def test_short_brackets_stay_on_their_line() -> None:
    def loss(accumulated: Any, variance: Any, innovation: Any) -> Any:
        return -0.5 * (accumulated * 1.8378770664 + np.log(variance) + innovation * innovation / variance * accumulated)

    text = tg.value_and_grad(loss, argnums=(0, 1, 2)).source(1.0, 2.0, 3.0)
    assert "np.log(variance)" in text


def test_products_that_drop_factors_say_so() -> None:
    def loss(A: Any, y: Any) -> Any:
        m, total = np.ones(2), 0.0
        for t in range(len(y)):
            m = A @ m
            if np.isnan(y[t]):
                continue
            total += (y[t] - m[0]) ** 2 / m[1]
            m = m * y[t] / m[1]
        return total

    text = text_of(loss, np.array([[0.5, 0.1], [0.2, 0.9]]), np.array([1.0, np.nan, 0.5, 0.4]))
    assert text.count("# factors that are infinite or NaN count as zero where they meet zeros only") == 1
    assert "np.isfinite(A)" in text


def test_c_names_temporaries_and_shares_tables() -> None:
    table, again = np.arange(1.0, 40.0) ** 2, np.arange(1.0, 40.0) ** 2

    def loss(x: Any) -> Any:
        return np.sum(np.sin(x * table) * np.cos(x * again))

    def plain(x: Any) -> Any:
        return np.sqrt(x * x + 1.0) * np.exp(x + 2.0)

    text = tg.grad(plain).source(0.5, backend="c")
    _, _, sweep = text.partition("/* cotangents, from the result back to the arguments */\n")
    assert sweep.lstrip().startswith("/* test_readable_gradients.py:")
    assert re.search(r"const double (square|total|sqrt_t|exp_t) = ", text), text
    assert not re.search(r"\bt\d* = ", text), text
    constant = tg.grad(lambda x: np.sum(x * np.array([1.5, 2.5, 4.0, 8.5, 9.0, 3.0, 2.0, 1.0, 0.3]) ** 2)).source
    assert "table" not in constant(np.ones(9), backend="numpy")
    assert tg.grad(loss, backend="c").source(np.ones(39)).count("static const double") <= 2


def test_branches_that_return_one_after_the_other_are_not_nested() -> None:
    lines = [
        f"    if x < {k}.0:\n        return {k}.5 * x\n" for k in range(110)
    ]  # Python allows 99 blocks in each other
    text, file = "".join(["def tariff(x):\n", *lines, "    return x * x\n"]), "<tariff>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    scope: dict[str, Any] = {}
    exec(compile(text, file, "exec"), scope)
    gradient = tg.grad(scope["tariff"], backend="numpy")
    for x, slope in ((-1.0, 0.5), (70.5, 71.5), (109.5, 219.0)):
        assert gradient(x) == slope
    assert "    elif x < 1.0:  # <tariff>:4  if x < 1.0:\n" in gradient.source(1.0)
