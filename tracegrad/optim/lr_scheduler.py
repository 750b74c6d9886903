"""Learning rates that change with the number of epochs.

Writes the options of optimizers. Previous: optimizers.py; next: __init__.py.
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
