"""Learning rates that change with the number of epochs.

Writes the options of optimizers. Previous: lbfgs.py; next: __init__.py.

Most schedules change the rate in force rather than compute it from the first one, so that several can act on one
optimizer.
"""

from __future__ import annotations

import math
import types
import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tracegrad.optim.optimizer import Optimizer

#: a function of the epoch, or one for each group
Factors = Callable[[int], float] | Sequence[Callable[[int], float]]


class LRScheduler:
    """Base of all schedules: `get_lr()` gives the rates of all groups in the epoch `last_epoch`.

    Attributes:
        base_lrs: rates at the beginning.
    """

    #: attributes that state_dict leaves out
    _outside: tuple[str, ...] = ("optimizer",)
    _is_initial = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        for number, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{number}] when resuming scheduler with "
                    "last_epoch >= 0"
                )
        self.base_lrs: list[float] = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        optimizer._has_stepped = optimizer._has_stepped or False
        self._begin()

    def _begin(self) -> None:
        self._step_count = 0
        self._is_initial = True
        self.step()
        self._is_initial = False

    def get_lr(self) -> list[float]:
        """Return the learning rates of the epoch."""
        raise NotImplementedError

    def _rates_of_epoch(self) -> list[float]:
        """Return the rates of an epoch that need not follow the one before."""
        return self.get_lr()

    def _scaled(self, factor: float) -> list[float]:
        """Return the rates in force times a factor."""
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def step(self, epoch: int | None = None) -> None:
        """Go to the next epoch."""
        if self._step_count == 1 and not self.optimizer._has_stepped:
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, you "
                "should call them in the opposite order: `optimizer.step()` before `lr_scheduler.step()`.  Failure to "
                "do this will result in PyTorch skipping the first value of the learning rate schedule.",
                stacklevel=2,
            )
        self._step_count += 1
        if epoch is None:
            self.last_epoch += 1
            self._set_rates(self.get_lr())
        else:
            warnings.warn(
                "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. "
                "Please use `scheduler.step()` to step the scheduler. During the deprecation, if epoch is different "
                "from None, the closed form is used instead of the new chainable form, where available.",
                stacklevel=2,
            )
            self._go_to(epoch)

    def _go_to(self, epoch: int) -> None:
        self.last_epoch = epoch
        self._set_rates(self._rates_of_epoch())

    def _set_rates(self, rates: list[float]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        self._keep_rates()

    def _keep_rates(self) -> None:
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]

    def get_last_lr(self) -> list[float]:
        """Return the learning rates in force."""
        return self._last_lr

    def state_dict(self) -> dict[str, Any]:
        """Return all attributes but the optimizer."""
        return {name: value for name, value in self.__dict__.items() if name not in self._outside}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over attributes."""
        self.__dict__.update(state_dict)


class StepLR(LRScheduler):
    """The rate times gamma every step_size epochs."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return self._scaled(self.gamma if self.last_epoch and self.last_epoch % self.step_size == 0 else 1)

    def _rates_of_epoch(self) -> list[float]:
        return [rate * self.gamma ** (self.last_epoch // self.step_size) for rate in self.base_lrs]


class MultiStepLR(LRScheduler):
    """The rate times gamma at each milestone."""

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return self._scaled(self.gamma ** self.milestones[self.last_epoch])

    def _rates_of_epoch(self) -> list[float]:
        passed = sum(milestone <= self.last_epoch for milestone in self.milestones.elements())
        return [rate * self.gamma**passed for rate in self.base_lrs]


class ExponentialLR(LRScheduler):
    """The rate times gamma every epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return self._scaled(1 if self._is_initial else self.gamma)

    def _rates_of_epoch(self) -> list[float]:
        return [rate * self.gamma**self.last_epoch for rate in self.base_lrs]


class _ByFunctions(LRScheduler):
    """A schedule of the user's functions; of these, objects with attributes are part of the state."""

    _outside = ("optimizer", "lr_lambdas")

    def __init__(self, optimizer: Optimizer, lr_lambda: Factors, last_epoch: int = -1) -> None:
        count = len(optimizer.param_groups)
        self.lr_lambdas: list[Any] = list(lr_lambda) if isinstance(lr_lambda, list | tuple) else [lr_lambda] * count
        if len(self.lr_lambdas) != count:
            raise ValueError(f"Expected {count} lr_lambdas, but got {len(self.lr_lambdas)}")
        for function in self.lr_lambdas:
            if not callable(function):
                raise TypeError(f"lr_lambda should be a function, but got {type(function).__name__}")
        super().__init__(optimizer, last_epoch)

    def _factors(self) -> list[float]:
        return [function(self.last_epoch) for function in self.lr_lambdas]

    def state_dict(self) -> dict[str, Any]:
        """Return all attributes but the optimizer and functions."""
        kept = [None if isinstance(f, types.FunctionType) else dict(f.__dict__) for f in self.lr_lambdas]
        return {**super().state_dict(), "lr_lambdas": kept}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over attributes, and those of functions that are objects."""
        super().load_state_dict({name: value for name, value in state_dict.items() if name != "lr_lambdas"})
        for function, kept in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=True):
            if kept is not None:
                function.__dict__.update(kept)


class LambdaLR(_ByFunctions):
    """The first rate times a function of the epoch."""

    def get_lr(self) -> list[float]:
        return [rate * factor for rate, factor in zip(self.base_lrs, self._factors(), strict=True)]


class MultiplicativeLR(_ByFunctions):
    """The rate in force times a function of the epoch."""

    def get_lr(self) -> list[float]:
        if self._is_initial:
            return self._scaled(1)
        return [g["lr"] * factor for g, factor in zip(self.optimizer.param_groups, self._factors(), strict=True)]


class CosineAnnealingLR(LRScheduler):
    """The rate along half a cosine down to eta_min."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        epoch, groups = self.last_epoch, self.optimizer.param_groups
        if self._is_initial:
            return self._scaled(1)
        if self._step_count == 1 and epoch > 0:
            return self._rates_of_epoch()
        if (epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            return [g["lr"] + (rate - self.eta_min) * rise for g, rate in zip(groups, self.base_lrs, strict=True)]
        ratio = (1 + math.cos(math.pi * epoch / self.T_max)) / (1 + math.cos(math.pi * (epoch - 1) / self.T_max))
        return [self.eta_min + (g["lr"] - self.eta_min) * ratio for g in groups]

    def _rates_of_epoch(self) -> list[float]:
        height = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (rate - self.eta_min) * height for rate in self.base_lrs]


class ConstantLR(LRScheduler):
    """The rate times a factor until an epoch."""

    def __init__(self, optimizer: Optimizer, factor: float = 1 / 3, total_iters: int = 5, last_epoch: int = -1) -> None:
        if not 0 <= factor <= 1:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0:
            return self._scaled(self.factor)
        return self._scaled(1 / self.factor if self.last_epoch == self.total_iters else 1)

    def _rates_of_epoch(self) -> list[float]:
        return [rate * (1 if self.last_epoch >= self.total_iters else self.factor) for rate in self.base_lrs]


class LinearLR(LRScheduler):
    """The rate times a factor that goes linearly from one value to another."""

    def __init__(
        self, optimizer: Optimizer, start_factor: float = 1 / 3, end_factor: float = 1.0, total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if not 0.0 < start_factor <= 1.0:
            raise ValueError("Starting multiplicative factor expected to be greater than 0 and less or equal to 1.")
        if not 0.0 <= end_factor <= 1.0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        epoch, change = self.last_epoch, self.end_factor - self.start_factor
        if epoch == 0:
            return self._scaled(self.start_factor)
        if self._is_initial or epoch > self.total_iters:
            return self._scaled(1)
        return self._scaled(1 + change / (self.total_iters * self.start_factor + (epoch - 1) * change))

    def _rates_of_epoch(self) -> list[float]:
        share = min(self.last_epoch, self.total_iters) / self.total_iters
        return [rate * (self.start_factor + (self.end_factor - self.start_factor) * share) for rate in self.base_lrs]


class PolynomialLR(LRScheduler):
    """The rate down to 0 along a power."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        epoch, end = self.last_epoch, self.total_iters
        if self._is_initial or epoch > end:
            return self._scaled(1)
        return self._scaled(((1 - epoch / end) / (1 - (epoch - 1) / end)) ** self.power)

    def _rates_of_epoch(self) -> list[float]:
        left = 1 - min(self.last_epoch, self.total_iters) / self.total_iters
        return [rate * left**self.power for rate in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """The rate along half a cosine, again and again; each time T_mult times as long."""

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        self.T_0, self.T_i, self.T_mult, self.eta_min, self.T_cur = T_0, T_0, T_mult, eta_min, float(last_epoch)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        height = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (rate - self.eta_min) * height for rate in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Go to the next epoch, or to a place between epochs."""
        place = self.last_epoch + 1 if epoch is None else epoch
        if place < 0:
            raise ValueError(f"Expected non-negative epoch, but got {place}")
        self.T_cur, self.T_i = place, self.T_0
        while self.T_cur >= self.T_i:
            self.T_cur, self.T_i = self.T_cur - self.T_i, self.T_i * self.T_mult
        self._go_to(math.floor(place))


class OneCycleLR(LRScheduler):
    """The rate up to max_lr and down to almost nothing, once; step after each batch.

    Momentum (or the first beta) goes the other way, if `cycle_momentum`. The ends of phases are options of groups.

    Source: Smith and Topin, 2017.
    """

    def __init__(
        self, optimizer: Optimizer, max_lr: Any, total_steps: int | None = None, epochs: int | None = None,
        steps_per_epoch: int | None = None, pct_start: float = 0.3, anneal_strategy: str = "cos",
        cycle_momentum: bool = True, base_momentum: Any = 0.85, max_momentum: Any = 0.95, div_factor: float = 25.0,
        final_div_factor: float = 1e4, three_phase: bool = False, last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
            total_steps = epochs * steps_per_epoch
        if total_steps <= 0 or not isinstance(total_steps, int):
            raise ValueError(f"Expected positive integer total_steps, but got {total_steps}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        if cycle_momentum and not {"momentum", "betas"} & set(optimizer.defaults):
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.total_steps, self.linear, self.cycle_momentum = total_steps, anneal_strategy == "linear", cycle_momentum
        rise = pct_start * total_steps - 1
        #: last step, rates and momenta at the beginning and at the end
        self.phases = [(rise, "initial_lr", "max_lr", "max_momentum", "base_momentum")]
        if three_phase:
            fall = 2 * pct_start * total_steps - 2
            self.phases.append((fall, "max_lr", "initial_lr", "base_momentum", "max_momentum"))
            self.phases.append((total_steps - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum"))
        else:
            self.phases.append((total_steps - 1, "max_lr", "min_lr", "base_momentum", "max_momentum"))
        if last_epoch == -1:
            highest, most, least = (_per_group(optimizer, v) for v in (max_lr, max_momentum, base_momentum))
            for k, group in enumerate(optimizer.param_groups):
                group.update(initial_lr=highest[k] / div_factor, max_lr=highest[k])
                group["min_lr"] = group["initial_lr"] / final_div_factor
                if cycle_momentum:
                    group.update(max_momentum=most[k], base_momentum=least[k])
        super().__init__(optimizer, last_epoch)

    def _between(self, start: float, end: float, share: float) -> float:
        if self.linear:
            return (end - start) * share + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)

    def get_lr(self) -> list[float]:
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"Tried to step {step} times. The specified number of total steps is {self.total_steps}")
        number = next((k for k, phase in enumerate(self.phases) if step <= phase[0]), len(self.phases) - 1)
        first = self.phases[number - 1][0] if number else 0.0
        last, start, end, high, low = self.phases[number]
        share = (step - first) / (last - first)
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._between(group[start], group[end], share))
            if self.cycle_momentum:
                momentum = self._between(group[high], group[low], share)
                group.update({"betas": (momentum, *group["betas"][1:])} if "betas" in group else {"momentum": momentum})
        return rates


class CyclicLR(LRScheduler):
    """The rate up to max_lr and down to base_lr again and again; step after each batch.

    Momentum (or the first beta) goes the other way, if `cycle_momentum`.

    Source: Smith, Cyclical learning rates for training neural networks, 2015.
    """

    _outside = ("optimizer", "_scale")

    def __init__(
        self, optimizer: Optimizer, base_lr: Any, max_lr: Any, step_size_up: int = 2000,
        step_size_down: int | None = None, mode: str = "triangular", gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None, scale_mode: str = "cycle", cycle_momentum: bool = True,
        base_momentum: Any = 0.8, max_momentum: Any = 0.9, last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        if cycle_momentum and not {"momentum", "betas"} & set(optimizer.defaults):
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.mode, self.gamma, self.cycle_momentum, self._scale = mode, gamma, cycle_momentum, scale_fn
        self.by_cycle = scale_mode == "cycle" if scale_fn is not None else mode != "exp_range"
        self.total_size = float(step_size_up + (step_size_up if step_size_down is None else step_size_down))
        self.step_ratio = step_size_up / self.total_size
        self.lowest, self.highest = _per_group(optimizer, base_lr), _per_group(optimizer, max_lr)
        self.least, self.most = _per_group(optimizer, base_momentum), _per_group(optimizer, max_momentum)
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, self.lowest, strict=True):
                group["lr"] = rate
        super().__init__(optimizer, last_epoch)
        self.base_lrs = self.lowest

    def scale_fn(self, x: float) -> float:
        """Return by how much the cycle, or step, `x` is lower than the first."""
        if self._scale is not None:
            return self._scale(x)
        factor: float = {"triangular": 1.0, "triangular2": 0.5 ** (x - 1), "exp_range": self.gamma**x}[self.mode]
        return factor

    def get_lr(self) -> list[float]:
        position = self.last_epoch / self.total_size
        cycle = math.floor(1 + position)
        share = 1.0 + position - cycle
        height = share / self.step_ratio if share <= self.step_ratio else (share - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.by_cycle else self.last_epoch)
        if self.cycle_momentum:
            for group, least, most in zip(self.optimizer.param_groups, self.least, self.most, strict=True):
                momentum = most - (most - least) * height * scale
                group.update({"betas": (momentum, *group["betas"][1:])} if "betas" in group else {"momentum": momentum})
        pairs = zip(self.lowest, self.highest, strict=True)
        return [low + (high - low) * height * scale for low, high in pairs]


def _per_group(optimizer: Optimizer, value: Any) -> list[float]:
    return list(value) if isinstance(value, list | tuple) else [value] * len(optimizer.param_groups)


class _OfSchedules(LRScheduler):
    """Schedules of one optimizer under one name."""

    _outside = ("optimizer", "_schedulers")

    def _take(self, optimizer: Optimizer, schedulers: Sequence[LRScheduler]) -> None:
        name = type(self).__name__
        if not schedulers:
            raise ValueError(f"{name} expects at least one scheduler, but got no scheduler.")
        for k, each in enumerate(schedulers):
            if isinstance(each, ReduceLROnPlateau):
                raise ValueError(
                    f"{name} does not support `ReduceLROnPlateau` scheduler as it requires additional kwargs to be "
                    f"specified when calling `step`, but got one at index {k} in the given schedulers sequence."
                )
            if each.optimizer is not optimizer:
                raise ValueError(
                    f"{name} expects all schedulers to belong to the same optimizer, but got scheduler "
                    f"{type(each).__name__} at index {k}, which belongs to another."
                )
        self.optimizer, self._schedulers = optimizer, schedulers

    def state_dict(self) -> dict[str, Any]:
        """Return all attributes, and the states of the schedules."""
        return {**super().state_dict(), "_schedulers": [each.state_dict() for each in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over attributes and the states of the schedules."""
        super().load_state_dict({name: value for name, value in state_dict.items() if name != "_schedulers"})
        for each, kept in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            each.load_state_dict(kept)


class SequentialLR(_OfSchedules):
    """Schedules one after the other, each from a milestone on."""

    def __init__(
        self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: Sequence[int], last_epoch: int = -1
    ) -> None:
        self._take(optimizer, schedulers)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of "
                f"milestone points, but got number of schedulers {len(schedulers)} and the number of milestones to be "
                f"equal to {len(milestones)}"
            )
        self._milestones, self.last_epoch = milestones, last_epoch + 1
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        self._take_back()
        first = schedulers[bisect_right(milestones, 0)]
        first._begin()
        self._last_lr = first.get_last_lr()

    def _take_back(self) -> None:
        """Undo the step with which each schedule began."""
        for each in self._schedulers:
            if isinstance(each, SequentialLR):
                each._take_back()
            else:
                each.last_epoch -= 1

    def step(self, epoch: int | None = None) -> None:
        """Go to the next epoch."""
        self.last_epoch += 1
        number = bisect_right(self._milestones, self.last_epoch)
        chosen = self._schedulers[number]
        if number and self._milestones[number - 1] == self.last_epoch:
            chosen._go_to(0)
        else:
            chosen.step()
        self._last_lr = chosen.get_last_lr()


class ChainedScheduler(_OfSchedules):
    """Schedules that all act on the rate in each epoch."""

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        self._take(optimizer or schedulers[0].optimizer, schedulers)
        self._keep_rates()

    def step(self, epoch: int | None = None) -> None:
        """Go to the next epoch."""
        for each in self._schedulers:
            each.step()
        self._keep_rates()


class ReduceLROnPlateau(LRScheduler):
    """The rate times a factor when a measure has not become better for some epochs."""

    def __init__(
        self, optimizer: Optimizer, mode: str = "min", factor: float = 0.1, patience: int = 10, threshold: float = 1e-4,
        threshold_mode: str = "rel", cooldown: int = 0, min_lr: Any = 0, eps: float = 1e-8,
    ) -> None:  # fmt: skip
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown!")
        self.optimizer, self.mode, self.threshold_mode = optimizer, mode, threshold_mode
        self.factor, self.patience, self.threshold, self.eps = factor, patience, threshold, eps
        self.min_lrs, self.cooldown = _per_group(optimizer, min_lr), cooldown
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs, self.cooldown_counter, self.last_epoch = 0, 0, 0
        self._keep_rates()

    def _is_better(self, measure: float) -> bool:
        sign = 1 if self.mode == "max" else -1
        limit = (
            self.best * (1 + sign * self.threshold)
            if self.threshold_mode == "rel"
            else self.best + sign * self.threshold
        )
        return sign * measure > sign * limit

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Take the measure of an epoch."""
        measure = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(measure):
            self.best, self.num_bad_epochs = measure, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for group, least in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
                rate = max(group["lr"] * self.factor, least)
                if group["lr"] - rate > self.eps:
                    group["lr"] = rate
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._keep_rates()


_LRScheduler = LRScheduler
