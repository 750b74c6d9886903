"""Averages of the parameters of a model over its training, and the schedule that goes with them.

Reads and writes modules and optimizers. Previous: lr_scheduler.py.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from typing import Any, Literal

from tracegrad.nn.module import Module
from tracegrad.nn.modules import _BatchNorm
from tracegrad.optim.lr_scheduler import LRScheduler
from tracegrad.optim.optimizer import Optimizer
from tracegrad.runtime.creating import tensor
from tracegrad.runtime.gradients import no_grad
from tracegrad.runtime.tensor import Tensor

#: (average so far, parameter, number of models averaged so far) -> new average
Average = Callable[[Tensor, Tensor, Any], Any]


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """Return the average in which the weight of old values decays.

    Raises:
        ValueError: decay is not in [0, 1].
    """
    if not 0 <= decay <= 1:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")
    return lambda average, value, count: decay * average + (1 - decay) * value


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[[list[Any], list[Any], Any], None]:
    """Return what updates all averages, whose old values decay."""
    average = get_ema_avg_fn(decay)

    def update(averages: list[Any], values: list[Any], count: Any) -> None:
        for mine, theirs in zip(averages, values, strict=True):
            mine.copy_(average(mine, theirs, count) if mine.is_floating_point() else theirs)

    return update


def get_swa_avg_fn() -> Average:
    """Return the average of equal weights."""
    return lambda average, value, count: average + (value - average) / (count + 1)


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of those that `update_parameters` was called with.

    Source: Izmailov et al., 2018.
    """

    def __init__(
        self, model: Module, device: Any = None, avg_fn: Average | None = None, multi_avg_fn: Any = None,
        use_buffers: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = copy.deepcopy(model)
        self.register_buffer("n_averaged", tensor(0))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **keywords: Any) -> Any:
        return self.module(*args, **keywords)

    def _averaged(self, model: Any) -> list[Any]:
        return [*model.parameters(), *(model.buffers() if self.use_buffers else ())]

    def update_parameters(self, model: Module) -> None:
        """Take the parameters of a model into the average."""
        own, given = self._averaged(self.module), self._averaged(model)
        average = self.avg_fn or get_swa_avg_fn()
        with no_grad():
            if int(self.n_averaged) and self.multi_avg_fn is not None:
                self.multi_avg_fn(own, given, self.n_averaged)
            else:
                for mine, theirs in zip(own, given, strict=True):
                    mixes = int(self.n_averaged) and mine.is_floating_point()
                    mine.copy_(average(mine, theirs, self.n_averaged) if mixes else theirs)
            if not self.use_buffers:
                for mine, theirs in zip(self.module.buffers(), model.buffers(), strict=True):
                    mine.copy_(theirs)
            self.n_averaged += 1


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Compute the running statistics of all batch norms of a model anew, over the batches of a loader."""
    layers = [layer for layer in model.modules() if isinstance(layer, _BatchNorm)]
    if not layers:
        return
    momenta = [layer.momentum for layer in layers]
    was_training = model.training
    model.train()
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None
    try:
        with no_grad():
            for batch in loader:
                model(batch[0] if isinstance(batch, list | tuple) else batch)
    finally:
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum
        model.train(was_training)


class SWALR(LRScheduler):
    """Rates that go to fixed ones in some epochs, and stay there."""

    def __init__(
        self, optimizer: Optimizer, swa_lr: float | list[float], anneal_epochs: int = 10,
        anneal_strategy: Literal["cos", "linear"] = "cos", last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must by one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        groups = optimizer.param_groups
        rates = swa_lr if isinstance(swa_lr, list | tuple) else [swa_lr] * len(groups)
        for group, rate in zip(groups, rates, strict=True):
            group["swa_lr"] = rate
        self.anneal_epochs, self.anneal_strategy = anneal_epochs, anneal_strategy
        super().__init__(optimizer, last_epoch)

    def _share(self, step: int) -> float:
        """Return how far the rates have come after so many steps."""
        done = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return done if self.anneal_strategy == "linear" else (1 - math.cos(math.pi * done)) / 2

    def get_lr(self) -> list[float]:
        step = self._step_count - 1 + (not self.anneal_epochs)
        before, now = self._share(max(0, step - 1)), self._share(max(0, step))
        rates = []
        for group in self.optimizer.param_groups:
            final = group["swa_lr"]
            # the first rate, from where the last step left the rates
            first = final if before == 1 else (group["lr"] - before * final) / (1 - before)
            rates.append(final * now + first * (1 - now))
        return rates
