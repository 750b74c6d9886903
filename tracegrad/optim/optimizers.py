"""Optimizers: how each changes a parameter from its gradient.

Reads gradients, writes parameters. Previous: optimizer.py; next: lbfgs.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tracegrad.optim.optimizer import Optimizer, real_parts
from tracegrad.runtime.tensor import Array, Tensor, wrap


def _zeros(x: Array) -> Tensor:
    return wrap(np.zeros_like(x))


def _count_step(state: dict[str, Any]) -> int:
    """Count a step in the state, which keeps the number as a tensor; return it."""
    if "step" not in state:
        state["step"] = wrap(np.zeros((), np.float32))
    state["step"]._a[...] += 1
    return int(state["step"]._a)


def _positive(name: str, value: float) -> None:
    if value < 0.0:
        raise ValueError(f"Invalid {name}: {value}")


def _fractions(betas: Sequence[float]) -> None:
    for k, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {k}: {beta}")


def _decayed(x: Array, gradient: Array, group: dict[str, Any]) -> Array:
    """Return the gradient with that of the weight decay, or shrink the parameter where decay is a step of its own."""
    if not group["weight_decay"]:
        return gradient
    if group.get("decoupled_weight_decay"):
        x *= 1 - group["lr"] * group["weight_decay"]
        return gradient
    made: Array = gradient + group["weight_decay"] * x
    return made


def _in_reals(x: Array, gradient: Array, group: dict[str, Any]) -> tuple[Array, Array]:
    """Return a parameter and its gradient with weight decay, the parts of complex numbers as numbers of their own."""
    return real_parts(x), real_parts(_decayed(x, gradient, group))


def _kept(state: dict[str, Any], name: str) -> Array:
    return real_parts(state[name]._a)


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum."""

    implementation = ("foreach", "differentiable", "fused")

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, momentum: float = 0, dampening: float = 0,
        weight_decay: float = 0, nesterov: bool = False, *, maximize: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        _positive("learning rate", lr)
        _positive("momentum value", momentum)
        _positive("weight_decay value", weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = dict(
            lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay, nesterov=nesterov,
            maximize=maximize,
        )  # fmt: skip
        super().__init__(params, defaults | self._implementation(options))

    def update(self, x: Array, gradient: Array, state: dict[str, Any], group: dict[str, Any]) -> None:
        gradient = _decayed(x, gradient, group)
        if group["momentum"]:
            if "momentum_buffer" not in state:
                velocity = np.array(gradient)
                state["momentum_buffer"] = wrap(velocity)
            else:
                velocity = state["momentum_buffer"]._a
                velocity *= group["momentum"]
                velocity += (1 - group["dampening"]) * gradient
            gradient = gradient + group["momentum"] * velocity if group["nesterov"] else velocity
        x -= group["lr"] * gradient


class Adafactor(Optimizer):
    """Steps scaled by running moments of the gradient, of which a matrix keeps the means of rows and columns alone.

    Source: Shazeer and Stern, 2018, algorithms 4 to 6.
    """

    implementation = ("foreach",)

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-2, beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3), d: float = 1.0, weight_decay: float = 0.0, *,
        maximize: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        if not 0.0 <= lr:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not 0.0 >= beta2_decay:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None and not 0.0 <= eps[0]:
            raise ValueError(f"epsilon1 should be >= 0 but is: {eps[0]}")
        if not 0.0 <= eps[1]:
            raise ValueError(f"epsilon2 should be >= 0 but is: {eps[1]}")
        if not 1.0 <= d:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        if not 0.0 <= weight_decay:
            raise ValueError(f"weight_decay should be >= 0 but is: {weight_decay}")
        defaults = dict(lr=lr, beta2_decay=beta2_decay, eps=eps, d=d, weight_decay=weight_decay)
        super().__init__(params, defaults | self._implementation(options) | {"maximize": maximize})

    def update(self, x: Array, gradient: Array, state: dict[str, Any], group: dict[str, Any]) -> None:
        if np.iscomplexobj(x):
            raise RuntimeError("Adafactor does not support complex parameters")
        step = _count_step(state)
        is_matrix = gradient.ndim > 1
        if step == 1:
            if is_matrix:
                state["row_var"] = _zeros(gradient[..., :1])
                state["col_var"] = _zeros(gradient[..., :1, :])
            else:
                state["variance"] = _zeros(gradient)
        share, size = step ** group["beta2_decay"], x.size**0.5
        tiny = float(np.finfo(x.dtype).eps) if group["eps"][0] is None else group["eps"][0]
        rate = max(group["eps"][1], float(np.linalg.norm(x)) / size) * min(group["lr"], step**-0.5)
        if group["weight_decay"]:
            x *= 1 - group["lr"] * group["weight_decay"]
        square = gradient * gradient
        if is_matrix:
            rows, columns = state["row_var"]._a, state["col_var"]._a
            rows += share * (square.mean(-1, keepdims=True) - rows)
            columns += share * (square.mean(-2, keepdims=True) - columns)
            square = rows * columns / np.maximum(rows.mean(-2, keepdims=True), tiny)
        else:
            variance = state["variance"]._a
            variance += share * (square - variance)
            square = variance
        change = gradient / np.sqrt(np.maximum(square, tiny * tiny))
        x -= rate / max(1.0, float(np.linalg.norm(change)) / (size * group["d"])) * change


class Adam(Optimizer):
    """Steps scaled by running moments of the gradient.

    Source: Kingma and Ba, 2015, algorithm 1.
    """

    implementation = ("foreach", "capturable", "differentiable", "fused")

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, amsgrad: bool = False, *, maximize: bool = False,
        decoupled_weight_decay: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        _positive("learning rate", lr)
        _positive("epsilon value", eps)
        _fractions(betas)
        _positive("weight_decay value", weight_decay)
        defaults = dict(
            lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad, maximize=maximize,
            decoupled_weight_decay=decoupled_weight_decay,
        )  # fmt: skip
        super().__init__(params, defaults | self._implementation(options))

    def update(self, x: Array, gradient: Array, state: dict[str, Any], group: dict[str, Any]) -> None:
        step = _count_step(state)
        if step == 1:
            state.update(exp_avg=_zeros(x), exp_avg_sq=_zeros(x))
            if group["amsgrad"]:
                state["max_exp_avg_sq"] = _zeros(x)
        first, second = group["betas"]
        x, gradient = _in_reals(x, gradient, group)
        mean, square = _kept(state, "exp_avg"), _kept(state, "exp_avg_sq")
        part = np.empty_like(mean)  # one array for all that is in between
        np.subtract(gradient, mean, out=part)
        part *= 1 - first
        mean += part
        square *= second
        np.multiply(gradient, gradient, out=part)
        part *= 1 - second
        square += part
        if group["amsgrad"]:
            most = _kept(state, "max_exp_avg_sq")
            square = np.maximum(most, square, out=most)
        np.sqrt(square, out=part)
        part /= (1 - second**step) ** 0.5
        part += group["eps"]
        np.divide(mean, part, out=part)
        part *= group["lr"] / (1 - first**step)
        x -= part


class AdamW(Adam):
    """Adam whose weight decay is a step of its own.

    Source: Loshchilov and Hutter, 2019, algorithm 2.
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize, decoupled_weight_decay=True, **options
        )


class RMSprop(Optimizer):
    """Steps divided by the running root mean square of the gradient."""

    implementation = ("foreach", "capturable", "differentiable")

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-2, alpha: float = 0.99, eps: float = 1e-8,
        weight_decay: float = 0, momentum: float = 0, centered: bool = False, *, maximize: bool = False,
        **options: Any,
    ) -> None:  # fmt: skip
        defaults = dict(
            lr=lr, alpha=alpha, eps=eps, weight_decay=weight_decay, momentum=momentum, centered=centered,
            maximize=maximize,
        )  # fmt: skip
        super().__init__(params, defaults | self._implementation(options))

    def update(self, x: Array, gradient: Array, state: dict[str, Any], group: dict[str, Any]) -> None:
        if _count_step(state) == 1:
            state["square_avg"] = _zeros(x)
            if group["momentum"]:
                state["momentum_buffer"] = _zeros(x)
            if group["centered"]:
                state["grad_avg"] = _zeros(x)
        x, gradient = _in_reals(x, gradient, group)
        square = _kept(state, "square_avg")
        square *= group["alpha"]
        square += (1 - group["alpha"]) * gradient * gradient
        if group["centered"]:
            mean = _kept(state, "grad_avg")
            mean += (1 - group["alpha"]) * (gradient - mean)
            square = square - mean * mean
        step = gradient / (np.sqrt(square) + group["eps"])
        if group["momentum"]:
            velocity = _kept(state, "momentum_buffer")
            velocity *= group["momentum"]
            velocity += step
            step = velocity
        x -= group["lr"] * step


class Adagrad(Optimizer):
    """Steps divided by the root of the sum of squared gradients."""

    implementation = ("foreach", "differentiable", "fused")

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-2, lr_decay: float = 0, weight_decay: float = 0,
        initial_accumulator_value: float = 0, eps: float = 1e-10, *, maximize: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        defaults = dict(
            lr=lr, lr_decay=lr_decay, weight_decay=weight_decay, eps=eps, maximize=maximize,
            initial_accumulator_value=initial_accumulator_value,
        )  # fmt: skip
        super().__init__(params, defaults | self._implementation(options))
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["step"] = wrap(np.zeros((), np.float32))
                total = np.empty_like(p._a)
                real_parts(total)[...] = initial_accumulator_value
                self.state[p]["sum"] = wrap(total)

    def update(self, x: Array, gradient: Array, state: dict[str, Any], group: dict[str, Any]) -> None:
        count, total = _count_step(state), _kept(state, "sum")
        x, gradient = _in_reals(x, gradient, group)
        total += gradient * gradient
        rate = group["lr"] / (1 + (count - 1) * group["lr_decay"])
        x -= rate * gradient / (np.sqrt(total) + group["eps"])


class Adadelta(Optimizer):
    """Steps in units of the running root mean square of earlier steps.

    Source: Zeiler, 2012.
    """

    implementation = ("foreach", "capturable", "differentiable")

    def __init__(
        self, params: Iterable[Any], lr: float = 1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0,
        *, maximize: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        defaults = dict(lr=lr, rho=rho, eps=eps, weight_decay=weight_decay, maximize=maximize)
        super().__init__(params, defaults | self._implementation(options))

    def update(self, x: Array, gradient: Array, state: dict[str, Any], group: dict[str, Any]) -> None:
        if _count_step(state) == 1:
            state.update(square_avg=_zeros(x), acc_delta=_zeros(x))
        rho, eps = group["rho"], group["eps"]
        x, gradient = _in_reals(x, gradient, group)
        square, moved = _kept(state, "square_avg"), _kept(state, "acc_delta")
        square *= rho
        square += (1 - rho) * gradient * gradient
        step = np.sqrt(moved + eps) / np.sqrt(square + eps) * gradient
        moved *= rho
        moved += (1 - rho) * step * step
        x -= group["lr"] * step


class Adamax(Optimizer):
    """Adam with the greatest gradient in place of the mean square.

    Source: Kingma and Ba, 2015, algorithm 2.
    """

    implementation = ("foreach", "capturable", "differentiable")

    def __init__(
        self, params: Iterable[Any], lr: float = 2e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, *, maximize: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        _fractions(betas)
        defaults = dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, maximize=maximize)
        super().__init__(params, defaults | self._implementation(options))

    def update(self, x: Array, gradient: Array, state: dict[str, Any], group: dict[str, Any]) -> None:
        step = _count_step(state)
        if step == 1:
            state.update(exp_avg=_zeros(x), exp_inf=_zeros(x))
        first, second = group["betas"]
        x, gradient = _in_reals(x, gradient, group)
        mean, greatest = _kept(state, "exp_avg"), _kept(state, "exp_inf")
        mean += (1 - first) * (gradient - mean)
        greatest *= second
        np.maximum(greatest, np.abs(gradient) + group["eps"], out=greatest)
        x -= group["lr"] / (1 - first**step) * mean / greatest


class NAdam(Optimizer):
    """Adam with Nesterov's momentum.

    Source: Dozat, 2016.
    """

    implementation = ("foreach", "capturable", "differentiable")

    def __init__(
        self, params: Iterable[Any], lr: float = 2e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, momentum_decay: float = 4e-3, decoupled_weight_decay: bool = False, *,
        maximize: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        _fractions(betas)
        defaults = dict(
            lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, momentum_decay=momentum_decay,
            decoupled_weight_decay=decoupled_weight_decay, maximize=maximize,
        )  # fmt: skip
        super().__init__(params, defaults | self._implementation(options))

    def update(self, x: Array, gradient: Array, state: dict[str, Any], group: dict[str, Any]) -> None:
        step = _count_step(state)
        if step == 1:
            state.update(exp_avg=_zeros(x), exp_avg_sq=_zeros(x), mu_product=wrap(np.ones((), np.float32)))
        first, second = group["betas"]
        x, gradient = _in_reals(x, gradient, group)
        now, later = (first * (1 - 0.5 * 0.96 ** (k * group["momentum_decay"])) for k in (step, step + 1))
        state["mu_product"]._a[...] *= now
        product = float(state["mu_product"]._a)
        mean, square = _kept(state, "exp_avg"), _kept(state, "exp_avg_sq")
        mean += (1 - first) * (gradient - mean)
        square *= second
        square += (1 - second) * gradient * gradient
        scale = np.sqrt(square / (1 - second**step)) + group["eps"]
        x -= group["lr"] * (1 - now) / (1 - product) * gradient / scale
        x -= group["lr"] * later / (1 - product * later) * mean / scale


class RAdam(Optimizer):
    """Adam whose scaling begins when the variance of the mean square is known well enough.

    Source: Liu et al., 2019.
    """

    implementation = ("foreach", "capturable", "differentiable")

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, decoupled_weight_decay: bool = False, *, maximize: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        _fractions(betas)
        defaults = dict(
            lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, decoupled_weight_decay=decoupled_weight_decay,
            maximize=maximize,
        )  # fmt: skip
        super().__init__(params, defaults | self._implementation(options))

    def update(self, x: Array, gradient: Array, state: dict[str, Any], group: dict[str, Any]) -> None:
        step = _count_step(state)
        if step == 1:
            state.update(exp_avg=_zeros(x), exp_avg_sq=_zeros(x))
        first, second = group["betas"]
        x, gradient = _in_reals(x, gradient, group)
        mean, square = _kept(state, "exp_avg"), _kept(state, "exp_avg_sq")
        mean += (1 - first) * (gradient - mean)
        square *= second
        square += (1 - second) * gradient * gradient
        left = 1 - second**step
        most = 2 / (1 - second) - 1
        length = most - 2 * step * second**step / left
        change = mean / (1 - first**step)
        if length > 5:
            share = (length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length)
            change = change * share**0.5 * left**0.5 / (np.sqrt(square) + group["eps"])
        x -= group["lr"] * change
