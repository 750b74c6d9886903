"""Learning rates that change with the number of epochs.

Writes the options of optimizers. Previous: lbfgs.py; next: __init__.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tracegrad.optim.optimizers import Optimizer


class LRScheduler:
    """Base of all schedules: `rate(initial, epoch)` gives the learning rate of a group."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        for group in optimizer.param_groups:
            group.setdefault("initial_lr", group["lr"])
        self.last_epoch = -1
        self.step()

    def rate(self, initial: float, epoch: int) -> float:
        """Return the learning rate in an epoch."""
        raise NotImplementedError

    def step(self) -> None:
        """Go to the next epoch."""
        self.last_epoch += 1
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate(group["initial_lr"], self.last_epoch)

    def get_last_lr(self) -> list[float]:
        """Return the learning rates in force."""
        return [group["lr"] for group in self.optimizer.param_groups]


class StepLR(LRScheduler):
    """The rate times gamma every step_size epochs."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer)

    def rate(self, initial: float, epoch: int) -> float:
        return initial * self.gamma ** (epoch // self.step_size)


class MultiStepLR(LRScheduler):
    """The rate times gamma at each milestone."""

    def __init__(self, optimizer: Optimizer, milestones: Sequence[int], gamma: float = 0.1) -> None:
        self.milestones, self.gamma = milestones, gamma
        super().__init__(optimizer)

    def rate(self, initial: float, epoch: int) -> float:
        return float(initial * self.gamma ** sum(epoch >= m for m in self.milestones))


class ExponentialLR(LRScheduler):
    """The rate times gamma every epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float) -> None:
        self.gamma = gamma
        super().__init__(optimizer)

    def rate(self, initial: float, epoch: int) -> float:
        return float(initial * self.gamma**epoch)


class LambdaLR(LRScheduler):
    """The rate times a function of the epoch."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Callable[[int], float]) -> None:
        self.lr_lambda = lr_lambda
        super().__init__(optimizer)

    def rate(self, initial: float, epoch: int) -> float:
        return initial * self.lr_lambda(epoch)


class CosineAnnealingLR(LRScheduler):
    """The rate along half a cosine down to eta_min."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0) -> None:
        self.half_period, self.least = T_max, eta_min
        super().__init__(optimizer)

    def rate(self, initial: float, epoch: int) -> float:
        return self.least + (initial - self.least) * (1 + math.cos(math.pi * epoch / self.half_period)) / 2


class ConstantLR(LRScheduler):
    """The rate times a factor until an epoch."""

    def __init__(self, optimizer: Optimizer, factor: float = 1 / 3, total_iters: int = 5) -> None:
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer)

    def rate(self, initial: float, epoch: int) -> float:
        return initial * (self.factor if epoch < self.total_iters else 1.0)


class LinearLR(LRScheduler):
    """The rate times a factor that goes linearly from one value to another."""

    def __init__(
        self, optimizer: Optimizer, start_factor: float = 1 / 3, end_factor: float = 1.0, total_iters: int = 5
    ) -> None:
        if not 0.0 < start_factor <= 1.0:
            raise ValueError("Starting multiplicative factor expected to be greater than 0 and less or equal to 1.")
        if not 0.0 <= end_factor <= 1.0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start, self.end, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer)

    def rate(self, initial: float, epoch: int) -> float:
        share = min(epoch, self.total_iters) / self.total_iters
        return initial * (self.start + (self.end - self.start) * share)


class PolynomialLR(LRScheduler):
    """The rate down to 0 along a power."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer)

    def rate(self, initial: float, epoch: int) -> float:
        return float(initial * (1 - min(epoch, self.total_iters) / self.total_iters) ** self.power)


class CosineAnnealingWarmRestarts(LRScheduler):
    """The rate along half a cosine, again and again; each time T_mult times as long."""

    def __init__(self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0) -> None:
        self.length, self.growth, self.least = T_0, T_mult, eta_min
        super().__init__(optimizer)

    def rate(self, initial: float, epoch: int) -> float:
        length = self.length
        while epoch >= length:
            epoch, length = epoch - length, length * self.growth
        return self.least + (initial - self.least) * (1 + math.cos(math.pi * epoch / length)) / 2


class OneCycleLR(LRScheduler):
    """The rate up to max_lr and down to almost nothing, once; step after each batch.

    Momentum (or the first beta) goes the other way, if the optimizer has one.

    Source: Smith and Topin, 2017.
    """

    def __init__(
        self, optimizer: Optimizer, max_lr: float, total_steps: int | None = None, epochs: int | None = None,
        steps_per_epoch: int | None = None, pct_start: float = 0.3, anneal_strategy: str = "cos",
        cycle_momentum: bool = True, base_momentum: float = 0.85, max_momentum: float = 0.95, div_factor: float = 25.0,
        final_div_factor: float = 1e4,
    ) -> None:  # fmt: skip
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
            total_steps = epochs * steps_per_epoch
        self.total_steps, self.linear = total_steps, anneal_strategy == "linear"
        self.peak = float(pct_start * total_steps) - 1
        self.rates = (max_lr / div_factor, max_lr, max_lr / div_factor / final_div_factor)
        self.momenta = (max_momentum, base_momentum, max_momentum)
        self.cycle_momentum = cycle_momentum
        for group in optimizer.param_groups:
            group["initial_lr"] = group["lr"] = self.rates[0]
        super().__init__(optimizer)

    def _between(self, values: tuple[float, float, float], epoch: int) -> float:
        rising = epoch <= self.peak
        start, end = values[:2] if rising else values[1:]
        share = epoch / self.peak if rising else (epoch - self.peak) / (self.total_steps - 1 - self.peak)
        if self.linear:
            return start + (end - start) * share
        return end + (start - end) / 2 * (1 + math.cos(math.pi * share))

    def rate(self, initial: float, epoch: int) -> float:
        if epoch >= self.total_steps:
            raise ValueError(f"Tried to step {epoch} times. The specified number of total steps is {self.total_steps}")
        return self._between(self.rates, epoch)

    def step(self) -> None:
        """Go to the next batch."""
        super().step()
        if not self.cycle_momentum:
            return
        momentum = self._between(self.momenta, self.last_epoch)
        for group in self.optimizer.param_groups:
            if "betas" in group:
                group["betas"] = (momentum, *group["betas"][1:])
            elif "momentum" in group:
                group["momentum"] = momentum


class SequentialLR(LRScheduler):
    """Schedules one after the other, each from a milestone on."""

    def __init__(self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: Sequence[int]) -> None:
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of "
                f"milestone points, but got number of schedulers {len(schedulers)} and the number of milestones to be "
                f"equal to {len(milestones)}"
            )
        self.schedulers, self.milestones = schedulers, milestones
        super().__init__(optimizer)

    def rate(self, initial: float, epoch: int) -> float:
        number = sum(epoch >= m for m in self.milestones)
        return self.schedulers[number].rate(initial, epoch - (self.milestones[number - 1] if number else 0))


class ReduceLROnPlateau:
    """The rate times a factor when a measure has not become better for some epochs."""

    def __init__(
        self, optimizer: Optimizer, mode: str = "min", factor: float = 0.1, patience: int = 10, threshold: float = 1e-4,
        threshold_mode: str = "rel", cooldown: int = 0, min_lr: float = 0.0, eps: float = 1e-8,
    ) -> None:  # fmt: skip
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        self.optimizer, self.sign = optimizer, 1.0 if mode == "min" else -1.0
        self.factor, self.patience, self.threshold, self.relative = factor, patience, threshold, threshold_mode == "rel"
        self.cooldown, self.min_lr, self.eps = cooldown, min_lr, eps
        self.best, self.num_bad_epochs, self.waiting, self.last_epoch = math.inf * self.sign, 0, 0, 0

    def _is_better(self, measure: float) -> bool:
        margin = self.threshold * (self.best if self.relative else 1.0)
        return measure < self.best - margin if self.sign > 0 else measure > self.best + margin

    def step(self, metrics: float) -> None:
        """Take the measure of an epoch."""
        measure = float(metrics)
        self.last_epoch += 1
        if math.isinf(self.best) or self._is_better(measure):
            self.best, self.num_bad_epochs = measure, 0
        else:
            self.num_bad_epochs += 1
        if self.waiting:
            self.waiting -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs <= self.patience:
            return
        for group in self.optimizer.param_groups:
            rate = max(group["lr"] * self.factor, self.min_lr)
            if group["lr"] - rate > self.eps:
                group["lr"] = rate
        self.waiting, self.num_bad_epochs = self.cooldown, 0

    def get_last_lr(self) -> list[float]:
        """Return the learning rates in force."""
        return [group["lr"] for group in self.optimizer.param_groups]
