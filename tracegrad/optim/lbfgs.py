"""LBFGS: a quasi-Newton method, which evaluates the loss several times in a step.

Reads `.grad`, writes parameters. Previous: optimizers.py; next: lr_scheduler.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tracegrad.optim.optimizer import Optimizer, real_parts
from tracegrad.runtime.gradients import enable_grad
from tracegrad.runtime.tape import part_saved
from tracegrad.runtime.tensor import Array
from tracegrad.runtime.views import mark_written


class LBFGS(Optimizer):
    """Limited-memory BFGS, with a line search for the strong Wolfe conditions if asked for.

    Slopes stay numbers of the parameters' dtype, so that values are compared with its precision.

    Source: Nocedal and Wright, Numerical Optimization, 2006, algorithms 7.4, 3.5 and 3.6.
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 1, max_iter: int = 20, max_eval: int | None = None,
        tolerance_grad: float = 1e-7, tolerance_change: float = 1e-9, history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:  # fmt: skip
        if line_search_fn not in (None, "strong_wolfe"):
            raise RuntimeError("only 'strong_wolfe' is supported")
        defaults = dict(
            lr=lr, max_iter=max_iter, max_eval=max_iter * 5 // 4 if max_eval is None else max_eval,
            tolerance_grad=tolerance_grad, tolerance_change=tolerance_change, history_size=history_size,
            line_search_fn=line_search_fn,
        )  # fmt: skip
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    def _gradient(self) -> Array:
        return _flat([np.zeros_like(p._a) if p._grad is None else p._grad._a for p in self._params])

    def _place(self, values: Array) -> None:
        start = 0
        for p in self._params:
            part_saved(p)
            numbers = real_parts(p._a)
            numbers[...] = values[start : start + numbers.size].reshape(numbers.shape)
            mark_written(p, "LBFGS.step")
            start += numbers.size

    @np.errstate(all="ignore")  # of a loss without a minimum, steps and values become infinite
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change the parameters by several iterations; `closure` clears gradients, computes the loss and its gradients.

        Raises:
            TypeError: no closure is given.
        """
        if closure is None:
            raise TypeError("LBFGS.step() missing 1 required positional argument: 'closure'")
        group = self.param_groups[0]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first: list[Any] = []

        def evaluate(at: Array | None = None) -> tuple[float, Array]:
            if at is not None:
                self._place(at)
            with enable_grad():
                loss = closure()
            first.append(loss)
            state["func_evals"] += 1
            return loss.item(), self._gradient()

        def along(start: Array, direction: Array, t: float) -> tuple[float, Array]:
            return evaluate(start + t * direction)

        value, gradient = evaluate()
        evaluations, iterations = 1, 0
        if np.abs(gradient).max() <= group["tolerance_grad"]:
            return first[0]
        while iterations < group["max_iter"]:
            iterations += 1
            state["n_iter"] += 1
            direction = self._direction(state, gradient, group["history_size"])
            state.update(previous=gradient.copy(), prev_loss=value)
            rate = group["lr"]
            if state["n_iter"] == 1:
                rate *= min(1.0, 1.0 / np.abs(gradient).sum())
            slope = _product(gradient, direction)
            state["t"], state["d"] = rate, direction
            if slope > -group["tolerance_change"]:
                break
            start = _flat([p._a for p in self._params])
            before = value
            if group["line_search_fn"]:
                value, gradient, rate, count = _strong_wolfe(
                    functools.partial(along, start, direction), rate, direction, value, gradient, slope,
                    group["tolerance_change"], group["max_eval"] - evaluations,
                )  # fmt: skip
                state["t"] = rate
                self._place(start + rate * direction)
                evaluations += count
            else:
                self._place(start + rate * direction)
                if iterations != group["max_iter"]:
                    value, gradient = evaluate()
                    evaluations += 1
            if evaluations >= group["max_eval"] or np.abs(gradient).max() <= group["tolerance_grad"]:
                break
            if np.abs(direction * rate).max() <= group["tolerance_change"]:
                break
            if abs(value - before) < group["tolerance_change"]:
                break
        return first[0]

    def _direction(self, state: dict[str, Any], gradient: Array, history_size: int) -> Array:
        """Return minus the product of the estimated inverse Hessian and the gradient (the two-loop recursion)."""
        if state["n_iter"] == 1:
            state.update(changes=[], steps=[], scale=1.0)
            return -gradient
        change, step = gradient - state["previous"], state["d"] * state["t"]
        product = change @ step
        if product > 1e-10:
            if len(state["changes"]) == history_size:
                del state["changes"][0], state["steps"][0]
            state["changes"].append(change)
            state["steps"].append(step)
            state["scale"] = product / (change @ change)
        pairs = list(zip(state["changes"], state["steps"], strict=True))
        made: Array = -gradient
        shares: list[Any] = []
        for y, s in reversed(pairs):
            shares.append((s @ made) / (y @ s))
            made = made - shares[-1] * y
        made = made * state["scale"]
        for (y, s), share in zip(pairs, reversed(shares), strict=True):
            made = made + s * (share - (y @ made) / (y @ s))
        return made


def _flat(arrays: Sequence[Array]) -> Array:
    return np.concatenate([real_parts(a).ravel() for a in arrays])


def _product(a: Array, b: Array) -> Any:
    return a @ b


def _cubic_minimum(
    x1: float, f1: float, g1: float, x2: float, f2: float, g2: float, bounds: tuple[float, float] | None = None
) -> float:
    """Return the place between the bounds where the cubic through two points with their slopes is least."""
    low, high = bounds or (min(x1, x2), max(x1, x2))
    slope = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = slope**2 - g1 * g2
    if not square >= 0:  # NaN too
        return (low + high) / 2
    root = square**0.5
    if x1 <= x2:
        place = x2 - (x2 - x1) * ((g2 + root - slope) / (g2 - g1 + 2 * root))
    else:
        place = x1 - (x1 - x2) * ((g1 + root - slope) / (g1 - g2 + 2 * root))
    bounded: float = min(max(place, low), high)
    return bounded


def _strong_wolfe(
    evaluate: Callable[[float], tuple[float, Array]], t: float, direction: Array, f: float, g: Array, slope: float,
    tolerance: float, most: int, decrease: float = 1e-4, curvature: float = 0.9,
) -> tuple[float, Array, float, int]:  # fmt: skip
    """Return value and gradient at a step that satisfies the strong Wolfe conditions, the step, and the evaluations."""
    norm: float = np.abs(direction).max()
    f_new, g_new = evaluate(t)
    slope_new = _product(g_new, direction)
    count, steps = 1, 0
    before = (0.0, f, g.copy(), slope)
    bracket: list[tuple[float, float, Array, float]] = []
    done = False
    while steps < most:
        point = (t, f_new, g_new.copy(), slope_new)
        if f_new > f + decrease * t * slope or (steps > 1 and f_new >= before[1]):
            bracket = [before, point]
            break
        if abs(slope_new) <= -curvature * slope:
            bracket, done = [point], True
            break
        if slope_new >= 0:
            bracket = [before, point]
            break
        low, high = t + 0.01 * (t - before[0]), t * 10
        t = _cubic_minimum(before[0], before[1], before[3], t, f_new, slope_new, (low, high))
        before = point
        f_new, g_new = evaluate(t)
        count += 1
        slope_new = _product(g_new, direction)
        steps += 1
    if steps == most:
        bracket = [(0.0, f, g, slope), (t, f_new, g_new, slope_new)]
    stalled = False
    low, high = (0, 1) if bracket[0][1] <= bracket[-1][1] else (1, 0)
    while not done and steps < most:
        (a, f_a, _, s_a), (b, f_b, _, s_b) = bracket
        if abs(b - a) * norm < tolerance:
            break
        t = _cubic_minimum(a, f_a, s_a, b, f_b, s_b)
        margin = 0.1 * abs(b - a)
        if min(max(a, b) - t, t - min(a, b)) < margin:
            if stalled or t >= max(a, b) or t <= min(a, b):
                t = max(a, b) - margin if abs(t - max(a, b)) < abs(t - min(a, b)) else min(a, b) + margin
                stalled = False
            else:
                stalled = True
        else:
            stalled = False
        f_new, g_new = evaluate(t)
        count += 1
        slope_new = _product(g_new, direction)
        steps += 1
        point = (t, f_new, g_new.copy(), slope_new)
        if f_new > f + decrease * t * slope or f_new >= bracket[low][1]:
            bracket[high] = point
            low, high = (0, 1) if bracket[0][1] <= bracket[1][1] else (1, 0)
        else:
            if abs(slope_new) <= -curvature * slope:
                done = True
            elif slope_new * (bracket[high][0] - bracket[low][0]) >= 0:
                bracket[high] = bracket[low]
            bracket[low] = point
    chosen = bracket[0 if len(bracket) == 1 else low]
    return chosen[1], chosen[2], chosen[0], count
