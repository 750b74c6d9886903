"""Programs about modules, optimizers and schedules, which print the same under tracegrad and torch; see programs.py."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

from tests.eager.programs import PROGRAMS, attempt, lines, program

__all__ = ["PROGRAMS", "lines"]


def _pair(T: Any) -> Any:
    return T.nn.Parameter(T.tensor([1.0, 2.0]))


@program
def texts_of_optimizers(T: Any, say: Any) -> None:
    for name in "SGD Adam AdamW RMSprop Adagrad Adadelta Adamax NAdam RAdam LBFGS".split():
        say(getattr(T.optim, name)([_pair(T)]))
    say(T.optim.SGD([{"params": [_pair(T)]}, {"params": [_pair(T)], "lr": 0.5}], lr=0.1))
    named = T.optim.SGD([("a", _pair(T)), ("b", _pair(T))], lr=0.1)
    say(named, named.state_dict())
    attempt(say, lambda: named.add_param_group({"params": [_pair(T)]}))
    attempt(say, lambda: T.optim.SGD([("a", _pair(T)), _pair(T)], lr=0.1))
    attempt(say, lambda: T.optim.SGD([_pair(T)], lr=0.1, foo=1))
    T.optim.Adam([_pair(T)], foreach=True, capturable=False, fused=None, differentiable=False)
    attempt(say, lambda: named.load_state_dict(T.optim.SGD([_pair(T)], lr=0.1).state_dict()))


@program
def optimizers_of_users(T: Any, say: Any) -> None:
    Optimizer = importlib.import_module(f"{T.__name__}.optim.optimizer").Optimizer

    class Slowing(Optimizer):  # type: ignore[misc]
        def __init__(self, params: Any, lr: float) -> None:
            super().__init__(params, dict(lr=lr))

        def step(self, closure: Any = None) -> None:
            for group in self.param_groups:
                for p in group["params"]:
                    state = self.state[p]
                    if len(state) == 0:
                        state["count"] = 0
                    state["count"] += 1
                    p.data.add_(p.grad, alpha=-group["lr"] / state["count"])

    class Announced(Slowing):
        def step(self, closure: Any = None) -> None:
            say("announced")
            super().step(closure)

    for kind in (Announced, Slowing):
        x = _pair(T)
        optimizer = kind([x], 0.1)
        first = optimizer.register_step_pre_hook(lambda o, a, k: say("before", len(a), k))
        optimizer.register_step_post_hook(lambda o, a, k: say("after", o.state[x]))
        for _ in range(2):
            optimizer.zero_grad()
            (x * x).sum().backward()
            optimizer.step()
        first.remove()
        optimizer.step()
        say(x, optimizer.state_dict())
    x = _pair(T)
    optimizer = T.optim.SGD([x], lr=T.tensor(0.1))
    x.grad = T.ones(2)
    optimizer.step()
    say(x)


@program
def schedules(T: Any, say: Any) -> None:
    s = T.optim.lr_scheduler

    def optimizer(groups: int = 1) -> Any:
        params = [{"params": [_pair(T)], "lr": 0.1 * (k + 1)} for k in range(groups)]
        return T.optim.SGD(params, lr=0.1, momentum=0.9)

    def report(make: Any, steps: int = 9, groups: int = 1) -> None:
        own = optimizer(groups)
        made = make(own)
        each = made if isinstance(made, list) else [made]
        for _ in range(steps):
            own.step()
            for schedule in each:
                schedule.step()
            say([f"{group['lr']:.6f} {group['momentum']:.4f}" for group in own.param_groups])
        state = each[0].state_dict()
        say(state.get("last_epoch"), [f"{rate:.6f}" for rate in each[0].get_last_lr()])

    report(lambda o: s.LambdaLR(o, [lambda k: 1 / (k + 1), lambda k: 0.9**k]), groups=2)
    report(lambda o: s.MultiplicativeLR(o, lambda k: 0.95))
    report(lambda o: [s.ExponentialLR(o, 0.9), s.MultiStepLR(o, [3, 6, 6], gamma=0.1)])
    report(lambda o: s.ChainedScheduler([s.ConstantLR(o, 0.1, 2), s.ExponentialLR(o, 0.9)]))
    report(lambda o: s.CosineAnnealingLR(o, 4, 0.01), 12)
    report(lambda o: s.CosineAnnealingWarmRestarts(o, 2, 2, 0.01), 12)
    report(lambda o: s.OneCycleLR(o, [0.5, 0.7], 9, three_phase=True), groups=2)
    report(lambda o: s.SequentialLR(o, [s.LinearLR(o, 0.1, total_iters=3), s.CosineAnnealingLR(o, 5)], [3]))
    report(lambda o: s.SequentialLR(o, [s.PolynomialLR(o, 3), s.StepLR(o, 2), s.ExponentialLR(o, 0.5)], [3, 6]))
    for make in (
        lambda o, k: s.StepLR(o, 3, 0.5, last_epoch=k), lambda o, k: s.ExponentialLR(o, 0.5, last_epoch=k),
        lambda o, k: s.CosineAnnealingLR(o, 5, last_epoch=k), lambda o, k: s.LinearLR(o, last_epoch=k),
        lambda o, k: s.LambdaLR(o, lambda e: 1 / (e + 1), last_epoch=k),
        lambda o, k: s.MultiStepLR(o, [4], last_epoch=k),
    ):  # fmt: skip
        own = optimizer()
        attempt(say, lambda m=make, o=own: m(o, 3))
        own.param_groups[0]["initial_lr"] = 0.2
        schedule = make(own, 3)
        rates = [schedule.get_last_lr()[0]]
        for _ in range(3):
            own.step()
            schedule.step()
            rates += schedule.get_last_lr()
        other = optimizer()
        resumed = make(other, -1)
        resumed.load_state_dict(schedule.state_dict())
        other.load_state_dict(own.state_dict())
        other.step()
        resumed.step()
        say([f"{rate:.6f}" for rate in rates + resumed.get_last_lr()], schedule.last_epoch, resumed.last_epoch)
    attempt(say, lambda: s.LambdaLR(optimizer(2), [lambda k: 1]))
    attempt(say, lambda: s.StepLR(3, 1))


@program
def schedules_step_after_optimizers(T: Any, say: Any) -> None:
    s = T.optim.lr_scheduler
    for early in (True, False):
        optimizer = T.optim.SGD([_pair(T)], lr=0.1)
        schedule = s.StepLR(optimizer, 2)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                if not early:
                    optimizer.step()
                schedule.step()
            later = s.ExponentialLR(optimizer, 0.9)
            later.step()
        say([str(w.message)[:70] for w in caught])


@program
def line_searches_end(T: Any, say: Any) -> None:
    functions = (lambda x: (x**4).sum() - (x**2).sum(), lambda x: x.sum() * 0 + 3)
    for dtype in (T.float32, T.float64):
        for f in functions:
            x = T.tensor([-1.5, 2.0], dtype=dtype, requires_grad=True)
            optimizer = T.optim.LBFGS([x], line_search_fn="strong_wolfe")

            def closure(x: Any = x, f: Any = f, optimizer: Any = optimizer) -> Any:
                optimizer.zero_grad()
                loss = f(x)
                loss.backward()
                return loss

            losses = [optimizer.step(closure).item() for _ in range(3)]
            say([f"{loss:.2f}" for loss in losses], optimizer.state[x]["func_evals"], optimizer.state[x]["n_iter"])
    x = T.tensor([1.0, 2.0], requires_grad=True)
    optimizer = T.optim.LBFGS([x], lr=10.0)

    def falling() -> Any:
        optimizer.zero_grad()
        loss = -(x**2).sum()
        loss.backward()
        return loss

    say([optimizer.step(falling).isfinite().item() for _ in range(4)])


@program
def centred_steps(T: Any, say: Any) -> None:
    for options in (dict(centered=True), dict(centered=True, momentum=0.9, maximize=True)):
        x = _pair(T)
        optimizer = T.optim.RMSprop([x], lr=0.01, foreach=False, **options)
        for _ in range(5):
            optimizer.zero_grad()
            (x**3).sum().backward()
            optimizer.step()
        say(x, sorted(optimizer.state[x]))
    x = _pair(T)
    optimizer = T.optim.Adagrad([x], lr=0.1, initial_accumulator_value=0.5)
    say(optimizer.state[x])
    for make in (T.optim.NAdam, T.optim.RAdam, T.optim.Adam):
        x = _pair(T)
        optimizer = make([x], lr=0.1, weight_decay=0.5, decoupled_weight_decay=True)
        for _ in range(3):
            optimizer.zero_grad()
            (x**3).sum().backward()
            optimizer.step()
        say(x)
