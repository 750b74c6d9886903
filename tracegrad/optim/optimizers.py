"""Optimizers: they change parameters in place from their gradients.

Reads `.grad`, writes parameters. First file of optim/; next: lbfgs.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tracegrad.runtime.gradients import enable_grad
from tracegrad.runtime.tape import part_saved
from tracegrad.runtime.tensor import Array, Tensor, wrap
from tracegrad.runtime.views import mark_written


class Optimizer:
    """Base of all optimizers.

    Attributes:
        param_groups: dicts with `params` and the options for them.
        state: per parameter what is kept between steps.
    """

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                + params.type_name()
            )
        groups: list[Any] = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        self.defaults = defaults
        self.param_groups: list[dict[str, Any]] = []
        self.state: dict[Tensor, dict[str, Any]] = {}
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with options of their own."""
        params = param_group["params"]
        made = [params] if isinstance(params, Tensor) else list(params)
        for p in made:
            if not isinstance(p, Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {type(p).__name__}")
            if p._node is not None:
                raise ValueError("can't optimize a non-leaf Tensor")
        known = {p for group in self.param_groups for p in group["params"]}
        if any(p in known for p in made):
            raise ValueError("some parameters appear in more than one parameter group")
        if len(set(made)) != len(made):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this will cause an error",
                stacklevel=3,
            )
        self.param_groups.append({**self.defaults, **param_group, "params": made})

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset gradients."""
        for group in self.param_groups:
            for p in group["params"]:
                if p._grad is not None:
                    if set_to_none:
                        p._grad = None
                    else:
                        p._grad = p._grad.detach()
                        p._grad.zero_()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change the parameters once; `closure` computes the loss anew."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p._grad is not None:
                    gradient = p._grad._a
                    if group.get("maximize"):
                        gradient = -gradient
                    part_saved(p)
                    self.update(p._a, gradient, self.state.setdefault(p, {}), group)
                    mark_written(p, f"{type(self).__name__}.step")
        return loss

    def update(self, x: Array, gradient: Array, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Change one parameter in place."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """Return options and state, parameters replaced by numbers."""
        numbers = {p: k for k, p in enumerate(p for g in self.param_groups for p in g["params"])}
        return {
            "state": {numbers[p]: dict(s) for p, s in self.state.items()},
            "param_groups": [{**g, "params": [numbers[p] for p in g["params"]]} for g in self.param_groups],
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over options and state."""
        params = [p for g in self.param_groups for p in g["params"]]
        self.state = {params[k]: dict(s) for k, s in state_dict["state"].items()}
        for group, given in zip(self.param_groups, state_dict["param_groups"], strict=True):
            group.update({k: v for k, v in given.items() if k != "params"})

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for number, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {number}")
            lines += [f"    {name}: {group[name]}" for name in sorted(group) if name != "params"]
        return "\n".join([*lines, ")"])


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


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum."""

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, momentum: float = 0, dampening: float = 0,
        weight_decay: float = 0, nesterov: bool = False, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        _positive("learning rate", lr)
        _positive("momentum value", momentum)
        _positive("weight_decay value", weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(
            params,
            dict(
                lr=lr,
                momentum=momentum,
                dampening=dampening,
                weight_decay=weight_decay,
                nesterov=nesterov,
                maximize=maximize,
            ),
        )

    def update(self, x: Array, gradient: Array, state: dict[str, Any], group: dict[str, Any]) -> None:
        if group["weight_decay"]:
            gradient = gradient + group["weight_decay"] * x
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


class Adam(Optimizer):
    """Steps scaled by running moments of the gradient.

    Source: Kingma and Ba, 2015, algorithm 1.
    """

    decoupled = False

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, amsgrad: bool = False, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        _positive("learning rate", lr)
        _positive("epsilon value", eps)
        _fractions(betas)
        _positive("weight_decay value", weight_decay)
        super().__init__(
            params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad, maximize=maximize)
        )

    def update(self, x: Array, gradient: Array, state: dict[str, Any], group: dict[str, Any]) -> None:
        step = _count_step(state)
        if step == 1:
            state.update(exp_avg=_zeros(x), exp_avg_sq=_zeros(x))
            if group["amsgrad"]:
                state["max_exp_avg_sq"] = _zeros(x)
        first, second = group["betas"]
        if group["weight_decay"]:
            if self.decoupled:
                x *= 1 - group["lr"] * group["weight_decay"]
            else:
                gradient = gradient + group["weight_decay"] * x
        mean, square = state["exp_avg"]._a, state["exp_avg_sq"]._a
        part = np.empty_like(mean)  # one array for all that is in between
        np.subtract(gradient, mean, out=part)
        part *= 1 - first
        mean += part
        square *= second
        np.multiply(gradient, gradient, out=part)
        part *= 1 - second
        square += part
        if group["amsgrad"]:
            most = state["max_exp_avg_sq"]._a
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

    decoupled = True

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)


class RMSprop(Optimizer):
    """Steps divided by the running root mean square of the gradient."""

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-2, alpha: float = 0.99, eps: float = 1e-8,
        weight_decay: float = 0, momentum: float = 0,
    ) -> None:  # fmt: skip
        super().__init__(params, dict(lr=lr, alpha=alpha, eps=eps, weight_decay=weight_decay, momentum=momentum))

    def update(self, x: Array, gradient: Array, state: dict[str, Any], group: dict[str, Any]) -> None:
        if _count_step(state) == 1:
            state["square_avg"] = _zeros(x)
            if group["momentum"]:
                state["momentum_buffer"] = _zeros(x)
        if group["weight_decay"]:
            gradient = gradient + group["weight_decay"] * x
        square = state["square_avg"]._a
        square *= group["alpha"]
        square += (1 - group["alpha"]) * gradient * gradient
        step = gradient / (np.sqrt(square) + group["eps"])
        if group["momentum"]:
            velocity = state["momentum_buffer"]._a
            velocity *= group["momentum"]
            velocity += step
            step = velocity
        x -= group["lr"] * step


class Adagrad(Optimizer):
    """Steps divided by the root of the sum of squared gradients."""

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-2, lr_decay: float = 0, weight_decay: float = 0,
        eps: float = 1e-10,
    ) -> None:  # fmt: skip
        super().__init__(params, dict(lr=lr, lr_decay=lr_decay, weight_decay=weight_decay, eps=eps))

    def update(self, x: Array, gradient: Array, state: dict[str, Any], group: dict[str, Any]) -> None:
        count = _count_step(state)
        if count == 1:
            state["sum"] = _zeros(x)
        total = state["sum"]._a
        if group["weight_decay"]:
            gradient = gradient + group["weight_decay"] * x
        total += gradient * gradient
        rate = group["lr"] / (1 + (count - 1) * group["lr_decay"])
        x -= rate * gradient / (np.sqrt(total) + group["eps"])


class Adadelta(Optimizer):
    """Steps in units of the running root mean square of earlier steps.

    Source: Zeiler, 2012.
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0
    ) -> None:
        super().__init__(params, dict(lr=lr, rho=rho, eps=eps, weight_decay=weight_decay))

    def update(self, x: Array, gradient: Array, state: dict[str, Any], group: dict[str, Any]) -> None:
        if _count_step(state) == 1:
            state.update(square_avg=_zeros(x), acc_delta=_zeros(x))
        rho, eps = group["rho"], group["eps"]
        gradient = _decayed(x, gradient, group)
        square, moved = state["square_avg"]._a, state["acc_delta"]._a
        square *= rho
        square += (1 - rho) * gradient * gradient
        step = np.sqrt(moved + eps) / np.sqrt(square + eps) * gradient
        moved *= rho
        moved += (1 - rho) * step * step
        x -= group["lr"] * step


def _decayed(x: Array, gradient: Array, group: dict[str, Any]) -> Array:
    """Return the gradient with that of the weight decay."""
    return gradient + group["weight_decay"] * x if group["weight_decay"] else gradient


class Adamax(Optimizer):
    """Adam with the greatest gradient in place of the mean square.

    Source: Kingma and Ba, 2015, algorithm 2.
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 2e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0,
    ) -> None:  # fmt: skip
        _fractions(betas)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    def update(self, x: Array, gradient: Array, state: dict[str, Any], group: dict[str, Any]) -> None:
        step = _count_step(state)
        if step == 1:
            state.update(exp_avg=_zeros(x), exp_inf=_zeros(x))
        first, second = group["betas"]
        gradient = _decayed(x, gradient, group)
        mean, greatest = state["exp_avg"]._a, state["exp_inf"]._a
        mean += (1 - first) * (gradient - mean)
        greatest *= second
        np.maximum(greatest, np.abs(gradient) + group["eps"], out=greatest)
        x -= group["lr"] / (1 - first**step) * mean / greatest


class NAdam(Optimizer):
    """Adam with Nesterov's momentum.

    Source: Dozat, 2016.
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 2e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, momentum_decay: float = 4e-3,
    ) -> None:  # fmt: skip
        _fractions(betas)
        super().__init__(
            params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, momentum_decay=momentum_decay)
        )

    def update(self, x: Array, gradient: Array, state: dict[str, Any], group: dict[str, Any]) -> None:
        step = _count_step(state)
        if step == 1:
            state.update(exp_avg=_zeros(x), exp_avg_sq=_zeros(x), mu_product=wrap(np.ones((), np.float32)))
        first, second = group["betas"]
        gradient = _decayed(x, gradient, group)
        now, later = (first * (1 - 0.5 * 0.96 ** (k * group["momentum_decay"])) for k in (step, step + 1))
        state["mu_product"]._a[...] *= now
        product = float(state["mu_product"]._a)
        mean, square = state["exp_avg"]._a, state["exp_avg_sq"]._a
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

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0,
    ) -> None:  # fmt: skip
        _fractions(betas)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    def update(self, x: Array, gradient: Array, state: dict[str, Any], group: dict[str, Any]) -> None:
        step = _count_step(state)
        if step == 1:
            state.update(exp_avg=_zeros(x), exp_avg_sq=_zeros(x))
        first, second = group["betas"]
        gradient = _decayed(x, gradient, group)
        mean, square = state["exp_avg"]._a, state["exp_avg_sq"]._a
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
