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
    for name in "SGD Adam AdamW RMSprop Adagrad Adadelta Adafactor Adamax NAdam RAdam LBFGS".split():
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
    report(lambda o: s.CyclicLR(o, [0.1, 0.2], 0.5, 4), 12, groups=2)
    report(lambda o: s.CyclicLR(o, 0.1, 0.5, 2, 3, "triangular2", base_momentum=0.7), 12)
    report(lambda o: s.CyclicLR(o, 0.1, 0.5, 2, mode="exp_range", gamma=0.9, cycle_momentum=False), 9)
    report(lambda o: s.CyclicLR(o, 0.1, 0.5, 2, scale_fn=lambda x: 1 / (x + 1), scale_mode="iterations"), 9)
    attempt(say, lambda: s.CyclicLR(optimizer(), 0.1, 0.5, mode="square"))
    attempt(say, lambda: s.CyclicLR(T.optim.Adadelta([T.ones(1, requires_grad=True)]), 0.1, 0.5))
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


@program
def containers(T: Any, say: Any) -> None:
    nn = T.nn

    class Named(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def extra_repr(self) -> str:
            return f"{self.name}"

        def forward(self, x: Any) -> Any:
            return x

    a, b, c = (Named(name) for name in "abc")
    row = nn.ModuleList([a, b])
    row += [c]
    row.extend([a])
    row.insert(1, c)
    say(row, len(row), row[-1].name, [m.name for m in row[1:3]], type(row[1:3]).__name__)
    row[0] = b
    del row[1]
    say(row, row.pop(0).name, row + [a], list(row._modules))
    say(nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2), nn.ReLU()]), nn.ModuleList())
    attempt(say, lambda: row[9])
    attempt(say, lambda: nn.ModuleList(a))
    stack = nn.Sequential(a, b)
    stack.append(c).extend([a]).insert(0, c)
    stack[1] = b
    say(stack, stack[1:3], stack + nn.Sequential(b), stack.pop(1).name, len(stack * 2))
    del stack[0]
    stack += nn.Sequential(c)
    say([m.name for m in stack], list(stack._modules))
    attempt(say, lambda: stack + 1)
    attempt(say, lambda: stack * 0)
    names = nn.ModuleDict({"x": a, "y": b})
    names.update([("z", c)])
    names["w"] = a
    say(names, list(names), len(names), "x" in names, [k for k, _ in names.items()], [m.name for m in names.values()])
    del names["w"]
    say(names.pop("y").name, list(names.keys()))
    names.clear()
    say(names)
    attempt(say, lambda: nn.ModuleDict(3))
    params = nn.ParameterList([nn.Parameter(T.zeros(2, 3)), T.ones(2)])
    params += [nn.Parameter(T.zeros(1))]
    params[0] = T.ones(4)
    say(params, len(params), [n for n, _ in params.named_parameters()], len(params[1:]), params[-1])
    attempt(say, lambda: params[7])
    table = nn.ParameterDict({"b": T.zeros(2), "a": nn.Parameter(T.ones(1, 2))})
    table["c"] = T.ones(())
    say(table, list(table), "a" in table, table.get("q"), [k for k, _ in table.items()], table["c"])
    say(table.pop("a"), len(table), [n for n, _ in table.named_parameters()], (table | {"k": T.ones(1)}).keys())
    say(nn.Sequential(nn.ModuleList([nn.ReLU()]), nn.Sequential()))


@program
def modules_inside_modules(T: Any, say: Any) -> None:
    nn = T.nn

    class Net(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(2, 2)
            self.inner = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
            self.again = self.first
            self.scale = nn.Parameter(T.ones(2))

        def forward(self, x: Any, *, factor: float = 1.0) -> Any:
            return self.inner(self.first(x)) * self.scale * factor

    net = Net()
    say([n for n, _ in net.named_parameters()], [n for n, _ in net.named_parameters(remove_duplicate=False)])
    say([n for n, _ in net.named_modules(prefix="m", remove_duplicate=False)], [n for n, _ in net.named_buffers("p")])
    say(net.get_submodule("inner.0"), net.get_parameter("inner.1.bias"), net.get_buffer("inner.1.running_var"))
    say(net.get_submodule("") is net, net.cpu() is net, {"first", "scale", "forward"} <= set(dir(net)))
    for path in ("inner.7", "scale", "first.weight.x"):
        attempt(say, lambda p=path: net.get_submodule(p))
    attempt(say, lambda: net.get_parameter("inner.1.running_mean"))
    attempt(say, lambda: net.get_buffer("first.weight"))
    kept = net.state_dict(keep_vars=True)
    say(list(kept), kept["scale"] is net.scale, net.state_dict()["scale"].requires_grad)
    order: list[str] = []
    first = net.register_forward_pre_hook(lambda m, a, k: order.append(f"pre {k}"), with_kwargs=True)
    net.register_forward_hook(lambda m, a, k, out: order.append(f"post {k}"), with_kwargs=True)
    net.register_forward_hook(lambda m, a, out: order.append("first of all"), prepend=True)
    net.register_forward_hook(lambda m, a, out: out * 0)
    say(net(T.ones(3, 2), factor=2.0).sum().item(), order)
    first.remove()
    net.register_forward_pre_hook(lambda m, a, k: (a, {"factor": 0.0}), with_kwargs=True)
    order.clear()
    net(T.ones(3, 2))
    say(order)
    say(net.half().scale.dtype, net.bfloat16().scale.dtype, net.type(T.float64).first.weight.dtype)


@program
def options_of_layers(T: Any, say: Any) -> None:
    nn, wide = T.nn, T.float64
    for layer in (
        nn.Embedding(4, 3, dtype=wide), nn.BatchNorm1d(3, dtype=wide), nn.PReLU(dtype=wide),
        nn.LayerNorm(3, dtype=wide), nn.GroupNorm(1, 3, dtype=wide),
        nn.MultiheadAttention(4, 2, dtype=wide), nn.InstanceNorm1d(3, True, dtype=wide),
        nn.Conv1d(1, 1, 2, dtype=wide), nn.ConvTranspose2d(1, 1, 2, dtype=wide), nn.RMSNorm(3, dtype=wide),
    ):  # fmt: skip
        say(layer, [t.dtype for t in layer.state_dict().values()])
    for layer in (
        nn.GELU(), nn.GELU("tanh"), nn.MSELoss(), nn.CosineEmbeddingLoss(0.5), nn.HuberLoss(delta=2.0), nn.ELU(),
        nn.LeakyReLU(), nn.Hardtanh(), nn.ReLU(inplace=True), nn.Softplus(), nn.Softmax(dim=-1), nn.MaxPool2d(2),
        nn.MaxPool1d(3, 2), nn.AvgPool1d(2), nn.AvgPool2d(2, padding=1), nn.Dropout2d(0.3), nn.CELU(), nn.GLU(),
        nn.Hardshrink(), nn.Softshrink(0.2), nn.Hardswish(), nn.Softmax2d(), nn.CosineSimilarity(), nn.Tanhshrink(),
        nn.ConstantPad1d(2, 0.5), nn.ZeroPad2d(1), nn.Conv2d(2, 4, 3, dilation=2, groups=2, bias=False),
        nn.Conv2d(1, 1, 3, padding=1, padding_mode="reflect"), nn.ConvTranspose2d(1, 1, 3, 2, output_padding=1),
        nn.Embedding(5, 2, padding_idx=-1, max_norm=1.0), nn.Threshold(0.1, 2.0), nn.Unflatten(1, (2, 3)),
        nn.CrossEntropyLoss(label_smoothing=0.1), nn.PairwiseDistance(), nn.TripletMarginLoss(), nn.Mish(),
    ):  # fmt: skip
        say(layer)
    say(nn.MaxPool2d(2).stride, nn.CrossEntropyLoss().ignore_index, nn.Hardtanh().max_val, nn.MSELoss().reduction)
    for wrong in (
        lambda: nn.MaxPool2d(), lambda: nn.ReLU(a=1), lambda: nn.MSELoss(foo=1), lambda: nn.Softmax(1, 2, 3),
        lambda: nn.Conv2d(3, 4, 3, groups=2), lambda: nn.Conv2d(1, 1, 3, padding_mode="x"), lambda: nn.Dropout(2.0),
        lambda: nn.GroupNorm(2, 3), lambda: nn.Embedding(3, 2, padding_idx=5),
    ):  # fmt: skip
        try:
            wrong()
        except Exception as error:
            say(type(error).__name__)
    x = T.arange(12.0).view(1, 1, 3, 4)
    for mode in ("reflect", "replicate", "circular"):
        for padding in (1, (1, 2), "same"):
            layer = nn.Conv2d(1, 1, 3, padding=padding, padding_mode=mode, bias=False)
            nn.init.constant_(layer.weight, 0.5)
            say(layer(x))
    table = nn.Embedding.from_pretrained(T.tensor([[3.0, 4.0], [0.3, 0.4], [6.0, 8.0]]), max_norm=1.0)
    say(table(T.tensor([0, 1, 0])), table.weight)
    free = nn.Embedding.from_pretrained(T.ones(2, 2), freeze=False, padding_idx=0)
    free(T.tensor([0, 1, 1])).sum().backward()
    say(free.weight.grad)
    for layer in (nn.Dropout1d(0.5), nn.Dropout2d(0.5)):
        ones = T.ones(20, 8, 5) if isinstance(layer, nn.Dropout1d) else T.ones(20, 8, 5, 2)
        made = layer(ones).flatten(2)
        say(((made == 0) | (made == 2)).all(), (made[:, :, 0] == made[:, :, -1]).all(), layer.eval()(ones) is ones)


@program
def results_into_given_tensors(T: Any, say: Any) -> None:
    m, v = T.arange(6.0).view(2, 3), T.tensor([0.5, 1.0, 2.0])
    for function in (
        lambda out: T.add(m, v, out=out), lambda out: T.mul(m, 2, out=out), lambda out: T.matmul(m, m.t(), out=out),
        lambda out: T.sin(m, out=out), lambda out: T.div(m, v, out=out), lambda out: T.mm(m, m.t(), out=out),
        lambda out: T.cat([m, m], out=out), lambda out: T.stack([v, v], out=out), lambda out: T.sum(m, 0, out=out),
        lambda out: T.cumsum(m, 1, out=out), lambda out: T.clamp(m, 1, 3, out=out), lambda out: T.pow(m, 2, out=out),
        lambda out: T.sub(m, v, alpha=2, out=out), lambda out: T.exp(v, out=out),
        lambda out: T.remainder(m, v, out=out), lambda out: T.argmax(m, 1, out=out.long()),
        lambda out: T.mean(m, 0, keepdim=True, out=out),
    ):  # fmt: skip
        for _ in range(2):
            out = T.empty(0)
            made = function(out)
            say(made, made is out or made.dtype == T.int64)
    kept = T.zeros(2, 3)
    view = kept[0]
    T.add(m, 1, out=kept)
    say(view, kept._version, T.add(m, 1, out=T.empty(2, 3, dtype=T.float64)).dtype)
    x = T.ones(3, requires_grad=True)
    attempt(say, lambda: T.add(x, 1, out=T.empty(3)))
    attempt(say, lambda: T.sin(T.ones(3), out=x))
    attempt(say, lambda: T.sin(v, out=T.empty(3, dtype=T.int64)))
    with T.no_grad():
        say(T.add(x, 1, out=T.empty(3)))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        say(T.sin(v, out=T.empty(2)), [str(w.message)[:60] for w in caught])


@program
def names_of_numpy(T: Any, say: Any) -> None:
    m = T.arange(6.0).view(2, 3)
    for name in ("mean", "sum", "std", "var", "amax", "argmax", "prod", "any", "all"):
        say(getattr(T, name)(m, axis=0, keepdims=True), getattr(m, name)(axis=1))
    say(m.max(axis=1), T.cumsum(m, axis=0), T.softmax(m, axis=1), T.cat([m, m], axis=1).shape, m.sort(axis=0).indices)
    say(
        T.zeros(size=(2, 3)),
        T.ones(size=(2,)),
        T.rand(size=(2, 1)).shape,
        T.randn(size=(3,)).shape,
        T.empty(size=(1,)).shape,
    )
    say(T.randint(0, 5, size=(2, 2)).shape, T.randint(5, (3,), device="cpu").shape, T.eye(2, device="cpu"))
    say(T.zeros(4).index_add(0, T.tensor([0, 2, 0]), T.ones(3), alpha=2.5), T.randperm(4, dtype=T.int32).dtype)
    x = T.zeros(3, requires_grad=True)
    source = T.ones(2, requires_grad=True)
    (x.index_add(0, T.tensor([1, 1]), source, alpha=3) ** 2).sum().backward()
    say(x.grad, source.grad)
    say(T.inner(m, m), T.inner(m, T.ones(3)), T.inner(T.ones(3), T.ones(3)), T.inner(m, T.tensor(2.0)))
    attempt(say, lambda: T.inner(m, T.ones(2)))


@program
def names_without_gradients(T: Any, say: Any) -> None:
    for dtype in (T.float32, T.float64, T.float16, T.bfloat16, T.complex64):
        limits = T.finfo(dtype)
        say(limits, limits.eps, limits.max, limits.min, limits.tiny, limits.bits)
    for dtype in (T.int64, T.int8, T.uint8):
        limits = T.iinfo(dtype)
        say(limits, limits.max, limits.min, limits.bits)
    attempt(say, lambda: T.finfo(T.int64))
    attempt(say, lambda: T.iinfo(T.float32))
    say(T.promote_types(T.int64, T.float16), T.promote_types(T.float16, T.bfloat16), T.promote_types(T.uint8, T.int8))
    say(T.can_cast(T.float32, T.int64), T.can_cast(T.int64, T.float16), T.result_type(T.ones(2), 1.5))
    say(
        T.is_nonzero(T.tensor(2.0)),
        T.is_anomaly_enabled(),
        T.typename(T.ones(1)),
        T.are_deterministic_algorithms_enabled(),
    )
    say(T.isin(T.tensor([[1, 2], [3, 4]]), T.tensor([2, 4])), T.isin(T.tensor([1, 2]), 2, invert=True))
    say(
        T.argwhere(T.tensor([[0, 1], [2, 0]])),
        T.aminmax(T.tensor([3.0, 1.0])),
        T.heaviside(T.tensor([-1.0, 0.0]), T.tensor([0.5])),
    )
    say(T.FloatTensor([1, 2]), T.LongTensor([[1, 2]]), T.FloatTensor(2, 3).shape, T.BoolTensor([True]).dtype)
    say(isinstance(T.ones(1), T.FloatTensor), isinstance(T.ones(1), T.LongTensor), T.DoubleTensor([1.5]).dtype)
    x = T.ones(2, 3)
    say(x.nbytes, x.is_cuda, x.is_sparse, x.layout, x.ndimension(), x.clone().apply_(lambda v: v + 1))
    attempt(say, lambda: T.ones(1, requires_grad=True).apply_(lambda v: v))
    T.use_deterministic_algorithms(False)
    T.backends.cudnn.benchmark = False
    T.cuda.manual_seed_all(0)
    generator = T.Generator().manual_seed(3)
    state = generator.get_state()
    first = T.rand(3, generator=generator)
    generator.set_state(state)
    again = T.rand(3, generator=generator)
    say(T.equal(first, again), generator.initial_seed(), T.manual_seed(7).initial_seed(), T.initial_seed())
    for draw in (
        lambda g: T.randn(3, generator=g), lambda g: T.randperm(9, generator=g),
        lambda g: T.randint(99, (5,), generator=g),
        lambda g: T.bernoulli(T.full((9,), 0.5), generator=g), lambda g: T.multinomial(T.ones(9), 4, generator=g),
        lambda g: T.normal(0.0, 1.0, (3,), generator=g), lambda g: T.zeros(5).uniform_(generator=g),
        lambda g: T.zeros(5).random_(0, 100, generator=g),
    ):  # fmt: skip
        say(T.equal(draw(generator.manual_seed(1)), draw(generator.manual_seed(1))))
    for shape in ((3, 5), (5, 3), (4, 2, 2)):
        weight = T.nn.init.orthogonal_(T.empty(shape, dtype=T.float64), gain=2.0).reshape(shape[0], -1)
        product = weight @ weight.T if weight.shape[0] <= weight.shape[1] else weight.T @ weight
        say(T.allclose(product, 4 * T.eye(len(product), dtype=T.float64)))
    drawn = T.nn.init.trunc_normal_(T.empty(500), std=2.0, a=-1.0, b=2.0)
    say(drawn.min().item() >= -1, drawn.max().item() <= 2)
    rows = T.tensor([[0.0, 0.0], [3.0, 4.0], [3.0, 4.0]], requires_grad=True)
    for p in (2.0, 1.0):
        pairs = T.nn.functional.pdist(rows, p)
        say(pairs.detach(), T.autograd.grad(pairs.sum(), rows))
    grad_mode = importlib.import_module(f"{T.__name__}.autograd.grad_mode")
    with grad_mode.no_grad():
        say((rows * 2).requires_grad, importlib.import_module(f"{T.__name__}.nn.parameter").Parameter is T.nn.Parameter)
    lines = T.nn.Bilinear(2, 3, 4)
    say(lines, lines(T.ones(5, 2), T.ones(5, 3)).shape, hasattr(T.autograd.function, "FunctionCtx"))


@program
def close_enough(T: Any, say: Any) -> None:
    check = T.testing.assert_close
    check(T.ones(2), T.ones(2) + 1e-7)
    check([T.ones(2), 1.0], [T.ones(2), 1.0])
    check({"a": T.ones(1)}, {"a": T.ones(1)})
    check(T.tensor([float("nan")]), T.tensor([float("nan")]), equal_nan=True)
    check(T.ones(2), T.ones(2) * 1.1, rtol=0.2, atol=0.0)
    check(T.ones(2), T.ones(2, dtype=T.float64), check_dtype=False)
    for wrong in (
        lambda: check(T.ones(2), T.ones(2) + 1e-3), lambda: check(T.ones(2), T.ones(3)),
        lambda: check(T.ones(2), T.ones(2, dtype=T.float64)), lambda: check(T.tensor([1, 2]), T.tensor([1, 3])),
        lambda: check(T.tensor([float("nan")]), T.tensor([float("nan")])), lambda: check([T.ones(1)], [T.ones(1)] * 2),
        lambda: check(T.ones(1), T.zeros(1), rtol=0.1), lambda: check(T.ones(1), T.zeros(1), msg="told so"),
    ):  # fmt: skip
        attempt(say, wrong)


def _filled(T: Any, module: Any) -> Any:
    """Return a module whose parameters are known."""
    with T.no_grad():
        for parameter in module.parameters():
            parameter.copy_((T.arange(float(parameter.numel())) * 0.7 + 0.5).sin().view(parameter.shape))
    return module


@program
def parametrizations(T: Any, say: Any) -> None:
    made_by = importlib.import_module(f"{T.__name__}.nn.utils.parametrizations")
    parametrize = importlib.import_module(f"{T.__name__}.nn.utils.parametrize")
    x = T.tensor([[1.0, 2.0, -1.0]])
    for dim in (0, 1, None):
        layer = made_by.weight_norm(_filled(T, T.nn.Linear(3, 2)), dim=dim)
        say(layer, sorted(layer.state_dict()), layer.parametrizations.weight.original0)
        (layer(x) ** 2).sum().backward()
        say(layer.weight.detach(), [p.grad for p in layer.parameters()])
    T.optim.SGD(layer.parameters(), 0.1).step()
    layer.weight = T.ones(2, 3)
    say(layer.weight, parametrize.is_parametrized(layer), parametrize.is_parametrized(layer, "bias"))
    parametrize.remove_parametrizations(layer, "weight")
    say(type(layer).__name__, layer.weight, sorted(layer.state_dict()))

    class Symmetric(T.nn.Module):  # type: ignore[misc]
        def forward(self, w: Any) -> Any:
            return w.triu() + w.triu(1).t()

    square = _filled(T, T.nn.Linear(3, 3))
    parametrize.register_parametrization(square, "weight", Symmetric())
    square(x).sum().backward()
    say(square, square.weight, square.parametrizations.weight.original.grad)
    with parametrize.cached():
        say(square.weight is square.weight)
    attempt(say, lambda: setattr(square, "weight", T.ones(3, 3)))
    attempt(say, lambda: parametrize.register_parametrization(square, "other", Symmetric()))
    parametrize.remove_parametrizations(square, "weight", leave_parametrized=False)
    say(square.weight)
    normed = made_by.spectral_norm(_filled(T, T.nn.Linear(3, 2)))
    inside = normed.parametrizations.weight[0]
    with T.no_grad():
        inside._u.copy_(T.tensor([0.6, 0.8]))
        inside._v.copy_(T.tensor([0.6, 0.0, 0.8]))
    normed(x).sum().backward()
    say(normed.parametrizations.weight.original.grad, inside._u, sorted(normed.state_dict()))
    normed.eval()
    say(normed(x), inside._u)


@program
def norms_of_weights_before_each_call(T: Any, say: Any) -> None:
    x = T.tensor([[1.0, 2.0, -1.0]])
    utils = T.nn.utils
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        layer = utils.weight_norm(_filled(T, T.nn.Linear(3, 2)))
    say([w.category.__name__ for w in caught])
    (layer(x) ** 2).sum().backward()
    say(sorted(layer.state_dict()), layer.weight.detach(), [p.grad for p in layer.parameters()])
    utils.remove_weight_norm(layer)
    say(sorted(layer.state_dict()), layer.weight)
    attempt(say, lambda: utils.remove_weight_norm(layer))
    normed = utils.spectral_norm(_filled(T, T.nn.Linear(3, 2)))
    with T.no_grad():
        normed.weight_u.copy_(T.tensor([0.6, 0.8]))
        normed.weight_v.copy_(T.tensor([0.6, 0.0, 0.8]))
    normed(x).sum().backward()
    say(sorted(normed.state_dict()), normed.weight_orig.grad, normed.weight_u, normed.weight)
    utils.remove_spectral_norm(normed)
    say(sorted(normed.state_dict()), normed.weight)


@program
def states_that_are_projected(T: Any, say: Any) -> None:
    x = T.arange(12.0).view(2, 2, 3).cos().requires_grad_()
    for options in (dict(), dict(num_layers=2), dict(bidirectional=True, batch_first=True), dict(bias=False)):
        layer = _filled(T, T.nn.LSTM(3, 4, proj_size=2, **options))
        out, (h, c) = layer(x)
        say(layer, [(name, tuple(p.shape)) for name, p in layer.named_parameters()])
        say(out.shape, h.shape, c.shape, out.sum(), T.autograd.grad(out.sum() + c.sum(), [x, layer.weight_hr_l0]))
    attempt(say, lambda: T.nn.GRU(3, 4, proj_size=2))
    attempt(say, lambda: T.nn.LSTM(3, 4, proj_size=4))
    normal = T.distributions.Normal(T.tensor([0.0, 1.0]), 2.0)
    say(normal.icdf(T.tensor([0.1, 0.9])), normal.icdf(normal.cdf(T.tensor(0.3))))


@program
def graphs_of_layers(T: Any, say: Any) -> None:
    def tree(node: Any, depth: int = 0) -> None:
        say("  " * depth + ("None" if node is None else node.name()))
        for other, _ in () if node is None else node.next_functions:
            tree(other, depth + 1)

    net = _filled(T, T.nn.Sequential(T.nn.Linear(3, 2), T.nn.ReLU(), T.nn.Linear(2, 1, bias=False)))
    x = T.tensor([[1.0, 2.0, -1.0], [0.5, 0.0, 1.0]])
    tree(net(x).sum().grad_fn)
    layer = _filled(T, T.nn.Linear(3, 2))
    made = layer(x.requires_grad_())
    tree(made.grad_fn)
    made.grad_fn.register_hook(lambda cts, _: say([None if ct is None else ct for ct in cts]))
    made.grad_fn.register_hook(lambda cts, _: tuple(ct * 2 for ct in cts))
    made.square().sum().backward()
    say(layer.weight.grad, layer.bias.grad, x.grad)
    tree(T.addmm(layer.bias, x, layer.weight.t()).grad_fn)
    tree(T.cat([made, made * 2]).unbind(0)[0].grad_fn)


@program
def factored_moments(T: Any, say: Any) -> None:
    for options in ({}, dict(weight_decay=0.1, d=2.0), dict(lr=0.5, eps=(1e-6, 1e-2), beta2_decay=-0.5, maximize=True)):
        shapes = ((2, 3, 4), (2, 3), (2,), ())
        ps = [T.linspace(-1, 2, T.ones(shape).numel()).view(shape).requires_grad_() for shape in shapes]
        optimizer = T.optim.Adafactor(ps, **options)
        for _ in range(4):
            optimizer.zero_grad()
            sum((p.exp() + p**2).sum() for p in ps).backward()
            optimizer.step()
        say([p.detach() for p in ps], optimizer.state_dict()["param_groups"])
        for kept in optimizer.state_dict()["state"].values():
            say({name: tuple(value.shape) for name, value in kept.items()})
    for options in (dict(lr=-1.0), dict(beta2_decay=0.5), dict(eps=(-1.0, 1.0)), dict(d=0.5), dict(weight_decay=-1.0)):
        attempt(say, lambda options=options: T.optim.Adafactor([_pair(T)], **options))
