"""Programs about the semantics of the tape, which print the same under tracegrad and torch.

What torch printed is kept in golden/, so that the comparison needs no torch; tests/peers checks these files.
"""

from __future__ import annotations

import copy
import gc
import pickle
import warnings
import weakref
from typing import Any

import numpy as np

PROGRAMS: list[Any] = []


def program(function: Any) -> Any:
    PROGRAMS.append(function)
    return function


def attempt(say: Any, function: Any) -> None:
    """Report the class of an error, or that there was none, and the first words of the message."""
    try:
        value = function()
    except Exception as error:
        say(type(error).__name__, str(error).split("\n")[0][:50])
    else:
        say("no error", value)


@program
def accumulation(T: Any, say: Any) -> None:
    x = T.tensor([1.0, 2.0], requires_grad=True)
    say(x.grad, x.is_leaf, x.requires_grad, x.grad_fn)
    y = x * x
    y.backward(T.ones(2), retain_graph=True)
    say(x.grad)
    y.backward(T.ones(2), retain_graph=True)
    say(x.grad)
    kept = x.grad
    y.sum().backward()
    say(x.grad, kept is x.grad, kept)
    x.grad.zero_()
    say(x.grad)
    attempt(say, lambda: y.sum().backward())
    x.grad = None
    (x + 1).sum().backward()
    say(x.grad)


@program
def freed_only_where_something_was_saved(T: Any, say: Any) -> None:
    x = T.ones(3, requires_grad=True)
    y = (x + 2).sum()
    y.backward()
    attempt(say, y.backward)
    say(x.grad)


@program
def grad_options(T: Any, say: Any) -> None:
    x = T.tensor([1.0, 2.0], requires_grad=True)
    w = T.tensor(3.0, requires_grad=True)
    y = (x * 2).sum()
    attempt(say, lambda: T.autograd.grad(y, w))
    attempt(say, lambda: T.autograd.grad(y, [x, w], retain_graph=True, allow_unused=True))
    attempt(say, lambda: T.autograd.grad(y, [x, w], retain_graph=True, materialize_grads=True))
    attempt(say, lambda: T.autograd.grad(y, T.ones(2), retain_graph=True))
    attempt(say, lambda: T.autograd.grad(x * 2, x))
    say(T.autograd.grad(x * x, x, T.tensor([[1.0, 0.0], [0.0, 1.0]]), is_grads_batched=True))
    say(T.autograd.grad(y, y), x.grad)
    z = x * 3
    say(T.autograd.grad((z * z).sum(), z, retain_graph=True))
    say(T.autograd.grad([(x * 2).sum(), (x * 3).sum()], x))


@program
def higher_order(T: Any, say: Any) -> None:
    x = T.tensor(2.0, requires_grad=True, dtype=T.float64)
    value = x.exp() * x**3
    for _ in range(5):
        (value,) = T.autograd.grad(value, x, create_graph=True)
        say(f"{value.item():.10f}")
    x = T.tensor([1.0, 2.0], requires_grad=True)
    (x**3).sum().backward(create_graph=True)
    say(x.grad.detach(), x.grad.requires_grad)
    x.grad.sum().backward()
    say(x.grad.detach())


@program
def create_graph_makes_a_new_grad(T: Any, say: Any) -> None:
    x = T.ones(2, requires_grad=True)
    (x * 2).sum().backward()
    first = x.grad
    (x * x).sum().backward(create_graph=True)
    say(first is x.grad, first, x.grad.detach())


@program
def inputs_of_backward(T: Any, say: Any) -> None:
    x = T.ones(2, requires_grad=True)
    w = T.ones(2, requires_grad=True)
    (x * w).sum().backward(inputs=[x])
    say(x.grad, w.grad)
    T.autograd.backward([(x * 2).sum(), (x * 3).sum()])
    say(x.grad)
    T.autograd.backward([x * 2], [T.tensor([1.0, 10.0])])
    say(x.grad)


@program
def modes(T: Any, say: Any) -> None:
    x = T.ones(2, requires_grad=True)
    with T.no_grad():
        y = x * 2
        say(y.requires_grad, T.is_grad_enabled())
        with T.enable_grad():
            say((x * 2).requires_grad)
    say(T.is_grad_enabled())
    with T.set_grad_enabled(False):
        say((x * 2).requires_grad)

    @T.no_grad()
    def f(x: Any) -> Any:
        return x * 2

    @T.no_grad()
    def numbers() -> Any:
        say("inside", T.is_grad_enabled())
        received = yield 1
        say("inside", T.is_grad_enabled(), received)
        yield 2

    say(f(x).requires_grad)
    steps = numbers()
    next(steps)
    say("outside", T.is_grad_enabled())
    steps.send("sent")
    say("outside", T.is_grad_enabled())
    T.set_grad_enabled(False)
    say(T.is_grad_enabled())
    T.set_grad_enabled(True)


@program
def inference(T: Any, say: Any) -> None:
    x = T.ones(2, requires_grad=True)
    with T.inference_mode():
        y = T.ones(2)
        z = x * 2
        say(z.requires_grad, y.is_inference(), T.is_inference_mode_enabled())
    attempt(say, lambda: (x * y).sum())
    attempt(say, lambda: y.requires_grad_())
    attempt(say, lambda: y.add_(1))
    say((x + y.clone()).requires_grad)


@program
def detached(T: Any, say: Any) -> None:
    x = T.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    d = y.detach()
    say(d.requires_grad, d.grad_fn, d.is_leaf)
    d[0] = 100.0
    say(y.detach(), d)
    y2 = x * 3
    y2.detach_()
    say(y2.requires_grad, y2.is_leaf)
    (y2 * x).sum().backward()
    say(x.grad)


@program
def leaf_rules(T: Any, say: Any) -> None:
    x = T.ones(3, requires_grad=True)
    attempt(say, lambda: x.add_(1))
    attempt(say, lambda: x.__setitem__(0, 1.0))
    attempt(say, lambda: x[0].mul_(2))
    attempt(say, lambda: x.view(3).zero_())
    with T.no_grad():
        x.add_(1)
    say(x, x._version)
    y = x * 1
    attempt(say, lambda: setattr(y, "requires_grad", False))
    attempt(say, lambda: T.arange(3).requires_grad_())
    z = T.zeros(3)
    z.add_(x)
    say(z.requires_grad, z.is_leaf)
    say(x.data.requires_grad)
    x.data.mul_(2)
    say(x._version, x)


@program
def overwritten(T: Any, say: Any) -> None:
    x = T.ones(3, requires_grad=True)
    y = x.exp()
    y.add_(1)
    attempt(say, lambda: y.sum().backward())
    y = x * 1
    z = (y * y).sum()
    y.mul_(2)
    attempt(say, z.backward)
    y = x * 1
    z = y + 1
    y.mul_(2)
    attempt(say, z.sum().backward)
    y = x * 1
    z = y.sin()
    y.detach().add_(1)
    attempt(say, z.sum().backward)
    y = x * 1
    z = y.sin()
    y.data.add_(1)
    attempt(say, z.sum().backward)
    y = x * 1
    z = y[:2].sin()
    y[2] = 5.0
    attempt(say, z.sum().backward)


@program
def versions(T: Any, say: Any) -> None:
    x = T.zeros(4)
    v = x[1:3]
    say(x._version, v._version)
    v.add_(1)
    say(x, x._version, v._version)
    x.mul_(2)
    say(v, v._version)
    x.detach()[0] = 7.0
    say(x._version, x)


@program
def views(T: Any, say: Any) -> None:
    w = T.tensor([1.0, 2.0, 3.0], requires_grad=True)
    base = T.zeros(2, 3)
    row = base[0]
    row.add_(w)
    say(base.requires_grad, row.requires_grad, base.grad_fn.name(), type(row.grad_fn).__name__)
    other = base[1]
    base.mul_(2)
    other.copy_(w * w)
    say(base.detach(), row.detach())
    (base * T.tensor([[1.0, 1.0, 1.0], [10.0, 10.0, 10.0]])).sum().backward()
    say(w.grad)
    w.grad = None
    b = w * 2
    t = b.view(3, 1)
    t.mul_(w.view(3, 1))
    (b * t.view(3)).sum().backward()
    say(w.grad, b.detach())
    parts = (w * 2).unbind()
    attempt(say, lambda: parts[0].mul_(2))
    pieces = (w * 2).split(1)
    attempt(say, lambda: pieces[0].mul_(2))
    with T.no_grad():
        hidden = (w * 1)[0:2]
    base2 = w * 1
    with T.no_grad():
        hidden = base2[0:2]
    attempt(say, lambda: hidden.mul_(2))
    attempt(say, lambda: T.ones(1).expand(3).add_(1))


@program
def layout(T: Any, say: Any) -> None:
    x = T.zeros(3, 4).t().requires_grad_()
    say(x.stride())
    (x * T.ones(4, 3)).sum().backward()
    say(x.grad.stride(), x.grad.is_contiguous())
    y = T.zeros(4, 6)[:, ::2].requires_grad_()
    y.sum().backward()
    say(y.grad.stride())
    z = T.zeros(2, 2, requires_grad=True)
    z.grad = T.zeros(2, 2).t()
    before = z.grad
    z.sum().backward()
    say(z.grad is before, z.grad.stride(), z.grad)
    c = T.zeros(2, 3, 4).permute(2, 0, 1).requires_grad_()
    (c * 2).sum().backward()
    say(c.stride(), c.grad.stride())
    e = T.zeros(3, 1).expand(3, 2).requires_grad_()
    e.sum().backward()
    say(e.grad.stride())


@program
def non_leaf_grad(T: Any, say: Any) -> None:
    x = T.ones(2, requires_grad=True)
    y = x * 2
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        say(y.grad, len(caught), str(caught[0].message)[:40])
    y.retain_grad()
    say(y.retains_grad, x.retains_grad)
    (y * y).sum().backward()
    say(y.grad, x.grad)
    z = x * 3
    z.retain_grad()
    z.sum().backward(retain_graph=True)
    z2 = z.grad
    (z * 2).sum().backward()
    say(z.grad, z2)


@program
def hooks(T: Any, say: Any) -> None:
    x = T.ones(2, requires_grad=True)
    y = x * 2
    log = []
    first = y.register_hook(lambda g: log.append(("y1", g.tolist())))
    y.register_hook(lambda g: g * 10)
    y.register_hook(lambda g: log.append(("y3", g.tolist())))
    y.retain_grad()
    x.register_hook(lambda g: log.append(("x", g.tolist())))
    x.register_post_accumulate_grad_hook(lambda p: log.append(("after", p.grad.tolist())))
    y.grad_fn.register_prehook(lambda g: log.append(("pre", [t.tolist() for t in g])))
    y.grad_fn.register_hook(
        lambda i, o: log.append(("post", [t.tolist() for t in i if t is not None], [t.tolist() for t in o]))
    )
    (y * 3).sum().backward()
    say(log, y.grad, x.grad)
    first.remove()
    first.remove()
    log.clear()
    (x * 2).sum().backward()
    say(log)
    z = x * 1
    handle = []

    def once(g: Any) -> None:
        log.append("once")
        handle[0].remove()

    handle.append(z.register_hook(once))
    z.sum().backward(retain_graph=True)
    z.sum().backward()
    say(log.count("once"))
    attempt(say, lambda: T.ones(2).register_hook(lambda g: g))
    q = x * 1
    q.register_hook(lambda g: T.ones(5))
    attempt(say, q.sum().backward)


@program
def hooks_and_in_place(T: Any, say: Any) -> None:
    x = T.ones(2, requires_grad=True)
    y = x * 2
    log = []
    y.register_hook(lambda g: log.append(("before", g.tolist())))
    y.mul_(3)
    y.register_hook(lambda g: log.append(("after", g.tolist())))
    y.sum().backward()
    say(log, x.grad)


@program
def node_attributes(T: Any, say: Any) -> None:
    x = T.ones(2, requires_grad=True)
    y = T.ones(2)
    z = x * y + 1
    node = z.grad_fn
    say(node.name(), type(node).__name__ == node.name() or True, len(node.next_functions))
    inner = node.next_functions[0][0]
    say(inner.name(), [(f if f is None else f.name(), n) for f, n in inner.next_functions])
    leaf = inner.next_functions[0][0]
    say(leaf.variable is x)
    node.metadata["key"] = 1
    say(z.grad_fn.metadata)
    say((x @ y).grad_fn.name(), x.sum().grad_fn.name(), x.exp().grad_fn.name(), (x / y).grad_fn.name())
    say((x[0]).grad_fn.name(), x.view(2, 1).grad_fn.name(), x.clone().grad_fn.name(), (-x).grad_fn.name())
    say((x**2).grad_fn.name(), x.mean().grad_fn.name(), x.unsqueeze(0).grad_fn.name(), x.max().grad_fn.name())


@program
def custom_function(T: Any, say: Any) -> None:
    class Scale(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, factor: Any, flag: bool) -> Any:
            ctx.save_for_backward(x, factor)
            ctx.flag = flag
            say("needs", ctx.needs_input_grad)
            return x * factor

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            x, factor = ctx.saved_tensors
            return g * factor, (g * x).sum(), None

    x = T.tensor([1.0, 2.0], requires_grad=True)
    factor = T.tensor(3.0, requires_grad=True)
    y = Scale.apply(x, factor, True)
    say(y, y.grad_fn.name())
    y.sum().backward()
    say(x.grad, factor.grad)
    attempt(say, y.sum().backward)
    z = Scale.apply(x, T.tensor(2.0), False)
    g = T.autograd.grad(z.sum(), x, create_graph=True)
    say(g[0].detach())

    class Split(T.autograd.Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return x * 2, x.argmax(), x * 3

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.mark_non_differentiable(output[1])
            ctx.set_materialize_grads(False)

        @staticmethod
        def backward(ctx: Any, a: Any, b: Any, c: Any) -> Any:
            say("arrived", a, b, c)
            return a * 2 if c is None else c * 3

    a, b, c = Split.apply(x)
    say(a.requires_grad, b.requires_grad, c.requires_grad)
    a.sum().backward()

    class Wrong(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g, g

    attempt(say, lambda: Wrong.apply(x).sum().backward())

    class Shape(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return T.ones(7)

    attempt(say, lambda: Shape.apply(x).sum().backward())

    class InPlace(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    x.grad = None
    y = x * 1
    out = InPlace.apply(y)
    say(out is y, y.grad_fn.name(), y.detach())
    y.sum().backward()
    say(x.grad)

    class Once(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @T.autograd.function.once_differentiable
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 2 * x * g

    (g,) = T.autograd.grad(Once.apply(x).sum(), x, create_graph=True)
    say(g.detach())
    attempt(say, lambda: T.autograd.grad(g.sum(), x))

    class Identity(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 5

    x.grad = None
    y = Identity.apply(x)
    say(y is x, y.requires_grad, y.is_leaf)
    y.sum().backward()
    say(x.grad)


@program
def anomaly(T: Any, say: Any) -> None:
    x = T.tensor([0.0, 1.0], requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with T.autograd.detect_anomaly():

            class Nan(T.autograd.Function):
                @staticmethod
                def forward(ctx: Any, x: Any) -> Any:
                    return x * 1

                @staticmethod
                def backward(ctx: Any, g: Any) -> Any:
                    return g * float("nan")

            attempt(say, lambda: Nan.apply(x).sum().backward())
        with T.autograd.set_detect_anomaly(False):
            Nan.apply(x).sum().backward()
            say(x.grad)


@program
def saved_hooks(T: Any, say: Any) -> None:
    x = T.tensor([1.0, 2.0], requires_grad=True, dtype=T.float64)
    log = []

    def pack(t: Any) -> Any:
        log.append(("pack", t.tolist()))
        return t.numpy().copy() if not t.requires_grad else t.detach().numpy().copy()

    def unpack(a: Any) -> Any:
        log.append(("unpack", a.tolist()))
        return T.tensor(a)

    with T.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = x.exp()
    y.sum().backward()
    say(log, x.grad)
    with T.autograd.graph.save_on_cpu():
        z = (x * x).sum()
    z.backward()
    say(x.grad)


@program
def functional_products(T: Any, say: Any) -> None:
    A = T.autograd.functional
    x = T.tensor([1.0, 2.0], dtype=T.float64)
    y = T.tensor([3.0], dtype=T.float64)

    def f(a: Any, b: Any) -> Any:
        return a * b, (a**2).sum()

    say(A.jacobian(f, (x, y)))
    say(A.jacobian(lambda a: (a**2).sum(), x))
    say(A.vjp(f, (x, y), (T.ones(2, dtype=T.float64), T.tensor(2.0, dtype=T.float64))))
    say(A.jvp(f, (x, y), (T.ones(2, dtype=T.float64), T.ones(1, dtype=T.float64))))
    say(A.hessian(lambda a, b: (a**3).sum() * b.sum(), (x, y)))
    say(A.vhp(lambda a: (a**3).sum(), x, T.ones(2, dtype=T.float64)))
    say(A.hvp(lambda a: (a**3).sum(), x, T.ones(2, dtype=T.float64)))
    attempt(say, lambda: A.jacobian(lambda a: T.ones(2), x, strict=True))


@program
def forward_mode(T: Any, say: Any) -> None:
    F = T.autograd.forward_ad
    x = T.tensor([1.0, 2.0])
    with F.dual_level():
        dual = F.make_dual(x, T.tensor([1.0, 0.5]))
        out = F.unpack_dual(dual.sin() * dual + dual.sum())
        say(out.tangent)
        say(F.unpack_dual(x * 2).tangent, F.unpack_dual(dual[1:] * 2).tangent)
    attempt(say, lambda: F.make_dual(x, x))


@program
def dtypes(T: Any, say: Any) -> None:
    for dtype in (T.half, T.bfloat16, T.float, T.double):
        x = T.tensor([1.5, 2.0], dtype=dtype, requires_grad=True)
        (x * 2).sum().backward()
        say(x, x.grad)
    x = T.tensor([1.0, 2.0], requires_grad=True)
    y = x.double() * T.ones(2, dtype=T.float64)
    y.sum().backward()
    say(y, x.grad)
    x.grad = None
    (x * T.arange(2)).sum().backward()
    say(x.grad)
    say(T.tensor([1, 2]) / 2, T.tensor(7) // 2, T.tensor([1, 2]).sum(), T.tensor([True]) + 1)
    attempt(say, lambda: T.tensor([1, 2]).mean())
    attempt(say, lambda: T.tensor([1, 2]).add_(1.5))


@program
def complex_gradients(T: Any, say: Any) -> None:
    z = T.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    (z.abs() ** 2).sum().backward()
    say(z.grad)
    z.grad = None
    (z * z).real.sum().backward()
    say(z.grad)
    attempt(say, lambda: (z * z).sum().backward())


@program
def conversions(T: Any, say: Any) -> None:
    x = T.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    attempt(say, lambda: x.numpy())
    say(x.detach().numpy().tolist(), x[0, 1].item(), x.tolist(), float(x[1, 1].detach()), len(x))
    say([r.tolist() for r in x], x.shape, x.size(0), x.numel(), x.dim(), x.stride(), x.T.stride(), x.T.is_contiguous())
    attempt(say, lambda: bool(x > 0))
    attempt(say, lambda: x.item())
    say(T.is_tensor(x), x.to(T.float64).dtype, x.int(), x.T, x.mT)
    say(copy.deepcopy(x), copy.deepcopy(x).is_leaf)
    attempt(say, lambda: copy.deepcopy(x * 2))
    say(T.from_numpy(np.arange(3)), T.as_tensor([1, 2]), T.full((2,), 3.0), T.eye(2), T.linspace(0, 1, 3))
    say(T.zeros_like(x), T.ones_like(x), T.full_like(x, 7), T.arange(1, 7, 2), T.arange(0.0, 1.0, 0.25))


@program
def errors_of_shapes(T: Any, say: Any) -> None:
    attempt(say, lambda: T.ones(2) + T.ones(3))
    attempt(say, lambda: T.ones(2, 3) @ T.ones(2, 3))
    attempt(say, lambda: T.ones(2, 3).view(5))
    attempt(say, lambda: T.ones(2, 3).t().view(6))
    attempt(say, lambda: T.ones(3).sum(2))
    attempt(say, lambda: T.ones(3)[5])
    attempt(say, lambda: T.ones(2).add_(T.ones(3, 2)))
    x = T.ones(3, requires_grad=True)
    attempt(say, lambda: (x * 2).backward(T.ones(2)))
    attempt(say, lambda: (x * 2).backward())
    attempt(say, lambda: T.ones(2).sum().backward())
    attempt(say, lambda: setattr(x, "grad", T.ones(2)))
    attempt(say, lambda: setattr(x, "grad", T.ones(3, dtype=T.float64)))


@program
def released(T: Any, say: Any) -> None:
    class Keep(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            big = x * 1
            ctx.save_for_backward(big)
            seen.append(weakref.ref(big))
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (big,) = ctx.saved_tensors
            return g * big

    seen: list[Any] = []
    x = T.ones(2, requires_grad=True)
    y = Keep.apply(x).sum()
    y.backward()
    gc.collect()
    say(seen[0]() is None, x.grad)


@program
def training_loop(T: Any, say: Any) -> None:
    rng = np.random.default_rng(0)
    X = T.tensor(rng.normal(size=(16, 3)).astype(np.float32))
    Y = T.tensor(rng.normal(size=(16, 1)).astype(np.float32))
    for make in (
        lambda p: T.optim.SGD(p, lr=0.1),
        lambda p: T.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True),
        lambda p: T.optim.Adam(p, lr=0.05, weight_decay=0.01),
        lambda p: T.optim.AdamW(p, lr=0.05, amsgrad=True),
        lambda p: T.optim.RMSprop(p, lr=0.01, momentum=0.5),
        lambda p: T.optim.Adagrad(p, lr=0.05),
    ):
        net = T.nn.Sequential(T.nn.Linear(3, 5), T.nn.Tanh(), T.nn.LayerNorm(5), T.nn.Linear(5, 1))
        values = np.random.default_rng(1)
        with T.no_grad():
            for p in net.parameters():
                p.copy_(T.tensor(values.normal(size=tuple(p.shape)).astype(np.float32)))
        optimizer = make(net.parameters())
        for _ in range(20):
            optimizer.zero_grad()
            loss = T.nn.functional.mse_loss(net(X), Y)
            loss.backward()
            optimizer.step()
        say(f"{loss.item():.4f}", [f"{p.detach().norm().item():.3f}" for p in net.parameters()])
    say(net, [n for n, _ in net.named_parameters()], list(net.state_dict()))


@program
def odds_and_ends(T: Any, say: Any) -> None:
    say(T.ones(2) == None, T.ones(2) != "text")  # noqa: E711
    say(T.nn.Parameter(T.ones(2)), sum(T.tensor([1.0, 2.0])), max(T.tensor([1.0, 3.0])))
    say([10, 20, 30][T.tensor(1)], bool(T.tensor(1)), int(T.tensor(2.7)), T.tensor(2.5) > 2)
    x = T.ones(2, 2, requires_grad=True)
    y = x.clone()
    y[0, 1] += 3
    y[:, 0] *= 2
    y[T.tensor([[True, False], [False, False]])] = 5.0
    y.sum().backward()
    say(y, x.grad)
    for values, f in (
        ([2.0, 2.0, 1.0], lambda x: x.max()),
        ([2.0, 2.0, 1.0], lambda x: x.max(0)[0]),
        ([0.0, 1.0], lambda x: x.relu().sum()),
        ([0.0, -1.0], lambda x: x.abs().sum()),
        ([1.0, 2.0], lambda x: T.maximum(x, T.tensor([1.0, 1.0])).sum()),
        ([1.0, 2.0, 3.0], lambda x: x.clamp(1, 2).sum()),
        ([0.0, 2.0], lambda x: (x**0).sum()),
        ([0.0, 0.0], lambda x: x.norm()),
        ([1.0, 1.0], lambda x: x.std()),
        ([0.0, 2.0, 3.0], lambda x: x.prod()),
        ([2.0, 1.0, 2.0], lambda x: x.sort()[0][1]),
        ([1.0, 3.0, 3.0, 2.0], lambda x: x.cummax(0)[0].sum()),
    ):
        x = T.tensor(values, requires_grad=True)
        f(x).backward()
        say(x.grad)
    say(T.tensor([1e10, 1.0]), T.tensor([0.1, 100000.0]), T.tensor([[1e-8]]), T.arange(12.0).reshape(2, 2, 3))
    say(T.arange(2000.0).reshape(2, 1000), T.zeros(0, 3).sum(), T.cat([T.ones(2), T.zeros(1, dtype=T.float64)]))


@program
def variable(T: Any, say: Any) -> None:
    v = T.autograd.Variable(T.ones(2), requires_grad=True)
    (v * 2).sum().backward()
    say(v, v.grad, isinstance(v, T.Tensor), isinstance(v, T.autograd.Variable))


@program
def saved_for_forward_is_apart_from_saved_for_backward(T: Any, say: Any) -> None:
    class F(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            ctx.save_for_forward(y, x)
            return x * y * y

        @staticmethod
        def backward(ctx, ct):
            x, y = ctx.saved_tensors
            return ct * y * y, 2 * ct * x * y

        @staticmethod
        def jvp(ctx, t_x, t_y):
            y, x = ctx.saved_tensors
            return t_x * y * y + 2 * x * y * t_y

    x, y = T.tensor(2.0, requires_grad=True), T.tensor(3.0, requires_grad=True)
    say(*T.autograd.grad(F.apply(x, y), (x, y)))
    ad = T.autograd.forward_ad
    with ad.dual_level():
        out = F.apply(ad.make_dual(T.tensor(2.0), T.tensor(1.0)), ad.make_dual(T.tensor(3.0), T.tensor(1.0)))
        say(ad.unpack_dual(out).tangent)


@program
def powers_keep_the_dtype(T: Any, say: Any) -> None:
    for dtype in (T.float64, T.float32, T.float16, T.bfloat16, T.int32):
        for k in (0, 1, 2, 3, 4, 5, 3.0, -1, -2, -3, -3.0):
            x = T.tensor([1, 2], dtype=dtype)
            if dtype.is_floating_point:
                x.requires_grad_()
                y = x**k
                ct = T.autograd.grad(y.sum(), x, create_graph=True)[0]
                say(y.dtype, y.tolist(), ct.dtype, ct.tolist())
            elif k >= 0:
                say((x**k).dtype, (x**k).tolist())


@program
def retained_gradient_is_of_the_new_content(T: Any, say: Any) -> None:
    def set_first(h):
        h[0] = 5.0

    def write_view(h):
        h[:1].mul_(3)

    def twice(h):
        h.mul_(3).add_(1)

    for write in (lambda h: h.relu_(), set_first, write_view, twice, lambda h: h.fill_(3.0), lambda h: h.exp_()):
        x = T.tensor([1.0, -2.0], requires_grad=True)
        h = x * 2
        seen = []
        h.register_hook(seen.append)
        h.retain_grad()
        write(h)
        (h * h * x).sum().backward()
        say(h.grad, x.grad, seen, h.retains_grad)
    for of_view in (True, False):
        x = T.tensor([1.0, -2.0], requires_grad=True)
        h = x * 2
        v = h[:1]
        v.retain_grad()
        (v if of_view else h).mul_(3)
        (h * h + v).sum().backward()
        say(v.grad, x.grad)


@program
def results_that_are_no_tensors(T: Any, say: Any) -> None:
    def check(results):
        class F(T.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return results(x)

            @staticmethod
            def backward(ctx, *cts):
                say(cts)
                return sum(ct for ct in cts if ct is not None)

        x = T.tensor([1.0, 2.0], requires_grad=True)
        outs = [out for out in F.apply(x) if isinstance(out, T.Tensor)]
        say([out.output_nr for out in outs])
        sum(out.sum() * k for k, out in enumerate(outs, 1) if out.requires_grad).backward()
        say(x.grad)

    check(lambda x: (x * 2, 3, x * 3))
    check(lambda x: (x.clone(), None))
    check(lambda x: (None, "text", x.clone(), x * 5))
    check(lambda x: (x.clone(), T.tensor([1, 2]), x * 3))


@program
def leaf_that_stops_requiring_grad(T: Any, say: Any) -> None:
    def check(change):
        x = T.tensor([1.0, 2.0], requires_grad=True)
        z = T.ones(2, requires_grad=True)
        y = (x * x * z).sum()
        change(x)
        y.backward()
        say(x.grad, z.grad, x.requires_grad)

    check(lambda x: x.requires_grad_(False))
    check(lambda x: x.detach_())
    check(lambda x: x.requires_grad_(False).requires_grad_())
    check(lambda x: (x.register_hook(say), x.requires_grad_(False)))


@program
def writes_into_nothing(T: Any, say: Any) -> None:
    say(T.zeros(2, 0).add_(1), T.zeros(3, 0).copy_(T.zeros(3, 0)), T.zeros(3, 0).fill_(1), T.zeros(3, 0, 2).zero_())
    a = T.zeros(2, 0)
    a[:] = 1
    a[0] = T.zeros(0)
    say(a, T.zeros(3, 1).expand(3, 1)[:, :0].add_(1))
    x = T.zeros(2, 0, requires_grad=True)
    (x * 2).mul_(3).sum().backward()
    say(x.grad)
    attempt(say, lambda: T.zeros(1).expand(3).add_(1))


@program
def division_of_integers_by_zero(T: Any, say: Any) -> None:
    x, zero = T.tensor([3, -4]), T.tensor([0, 1])
    for divide in (
        lambda: x // zero, lambda: x % zero, lambda: x // 0, lambda: x % 0, lambda: 5 // zero, lambda: 5 % zero,
        lambda: x.fmod(0), lambda: T.remainder(x, other=zero), lambda: T.div(x, zero, rounding_mode="trunc"),
        lambda: x.div(0, rounding_mode="floor"), lambda: x.clone().remainder_(0), lambda: x.clone().floor_divide_(zero),
        lambda: x // 2, lambda: x % 3, lambda: x % 3.0, lambda: x.double() // 0, lambda: x / zero, lambda: x.div(2),
        lambda: x[:0] // zero[:0],
    ):  # fmt: skip
        attempt(say, divide)


@program
def powers_to_the_last_derivative(T: Any, say: Any) -> None:
    for power, orders in (
        (lambda x: x**3, 4), (lambda x: x**3.0, 4), (lambda x: x**2, 3), (lambda x: x.square(), 3),
        (lambda x: (x**2).sum(), 3),
    ):  # fmt: skip
        for data in (2.0, [2.0]):
            x = T.tensor(data, requires_grad=True)
            y = power(x)
            for _ in range(orders):
                (y,) = T.autograd.grad(y.sum(), x, create_graph=True)
                say(y.detach(), y.requires_grad)
    x = T.tensor(3.0, requires_grad=True)
    (first,) = T.autograd.grad(x**2, x, create_graph=True)
    (second,) = T.autograd.grad(first, x, create_graph=True)
    (second * x).backward()
    say(first.detach(), second.detach(), x.grad)


@program
def hooks_keep_the_dtype(T: Any, say: Any) -> None:
    for leaf in (True, False):
        for dtype in (T.float64, T.int64, T.float32):
            x = T.tensor([1.0, 2.0], requires_grad=True)
            h = x if leaf else x * 2
            h.register_hook(lambda ct, dtype=dtype: ct.to(dtype))
            attempt(say, (h * h).sum().backward)
            say(x.grad)


@program
def views_made_by_functions(T: Any, say: Any) -> None:
    class View(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, view):
            return view(x)

        @staticmethod
        def backward(ctx, *cts):
            return 10 * cts[0].reshape(2), None

    def double(out):
        out.mul_(2)

    def double_part(out):
        out[:1].mul_(2)

    def in_place_and_back(out):
        out.clone().mul_(2).sum().backward()

    def part_and_back(out):
        (out[:1] * out[:1]).sum().backward()

    views = (lambda x: x.view(2, 1), lambda x: x, lambda x: x.view_as(x), lambda x: (x[:], x * 2), lambda x: x * 2)
    for view in views:
        for use in (double, double_part, in_place_and_back, part_and_back):
            for leaf in (True, False):
                x = T.tensor([1.0, 2.0], requires_grad=True)
                out = View.apply(x if leaf else x * 1, view)
                out = out[0] if isinstance(out, tuple) else out
                attempt(say, lambda use=use, out=out: use(out))
                say(x.tolist(), x.grad, out._is_view(), out.is_leaf)
        x = T.tensor([1.0, 2.0], requires_grad=True)
        h = x * 1
        out = View.apply(h, view)
        out = out[0] if isinstance(out, tuple) else out
        part = out[:1]
        h.mul_(3)
        attempt(say, lambda out=out: out.sum().backward(retain_graph=True))
        attempt(say, lambda part=part: part.sum().backward())
        say(h.tolist(), x.grad)
        x = T.tensor([1.0, 2.0])
        View.apply(x, lambda x: x.view(2, 1)).mul_(2)
        say(x)


@program
def state_of_optimizers(T: Any, say: Any) -> None:
    for name, options in (
        ("SGD", {}), ("SGD", {"momentum": 0.9}), ("SGD", {"momentum": 0.9, "nesterov": True}), ("Adam", {}),
        ("Adam", {"amsgrad": True}), ("AdamW", {}), ("RMSprop", {}), ("RMSprop", {"momentum": 0.9}),
        ("Adagrad", {"lr_decay": 0.1}),
    ):  # fmt: skip
        x = T.nn.Parameter(T.tensor([1.0, 2.0]))
        optimizer = getattr(T.optim, name)([x], lr=0.1, **options)
        for _ in range(3):
            optimizer.zero_grad()
            (x * x).sum().backward()
            optimizer.step()
        for key in sorted(optimizer.state[x]):
            kept = optimizer.state[x][key]
            say(name, key, kept, kept.dtype, kept.shape)
        other = getattr(T.optim, name)([x], lr=0.1, **options)
        other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        x.grad = T.ones(2)
        other.step()
        say(x)


@program
def refusals(T: Any, say: Any) -> None:
    F = T.nn.functional
    for classes, count in (([0, 3], 3), ([0, -1], 3), ([0, -1], -1), ([0.0], -1), ([0], 0), ([0, 2], -1), ([0, 1], 3)):
        attempt(say, lambda c=classes, n=count: F.one_hot(T.tensor(c), n))
    attempt(say, lambda: F.one_hot(T.zeros(0, dtype=T.int64)))
    for dtype in (T.float32, T.int32, T.bool, T.uint8, T.int64):
        attempt(say, lambda d=dtype: F.nll_loss(T.zeros(2, 3), T.tensor([0, 1], dtype=d)))
    attempt(say, lambda: T.nn.Parameter(T.tensor([1])))
    attempt(say, lambda: T.nn.Parameter(T.tensor([1]), requires_grad=False))
    attempt(say, lambda: T.autograd.grad(T.ones(2, requires_grad=True).sum(), []))
    true, one = T.tensor([True]), T.tensor([1])
    for subtract in (
        lambda: true - true, lambda: 1 - true, lambda: True - true, lambda: true - 1, lambda: true - True,
        lambda: -true, lambda: true - one, lambda: one - true, lambda: one - True, lambda: T.rsub(true, 1),
        lambda: one - one, lambda: 2 - one, lambda: T.sub(one, one, alpha=2),
    ):  # fmt: skip
        attempt(say, subtract)


@program
def bfloat16_stays(T: Any, say: Any) -> None:
    F = T.nn.functional
    ones = T.ones(4, dtype=T.bfloat16)
    for function in (
        F.gelu, lambda x: F.gelu(x, approximate="tanh"), F.elu, F.selu, F.celu, F.leaky_relu, F.softplus, F.silu,
        F.mish, F.hardtanh, F.relu6, F.hardsigmoid, F.logsigmoid, F.softsign, F.tanhshrink,
        lambda x: F.threshold(x, 0.1, 20.0), lambda x: F.layer_norm(x, (4,), ones, ones),
        lambda x: F.group_norm(x.reshape(1, 2, 2), 2),
        lambda x: F.batch_norm(x.reshape(4, 1), None, None, training=True),
        lambda x: F.dropout(x, 0.5) * 0, lambda x: F.smooth_l1_loss(x, ones), lambda x: F.huber_loss(x, ones),
        lambda x: F.mse_loss(x, ones), lambda x: F.l1_loss(x, ones), lambda x: x.abs().rsqrt(), lambda x: x.deg2rad(),
        lambda x: x.sigmoid(), lambda x: x.tanh(), lambda x: x.reciprocal(), lambda x: -x, lambda x: x.frac(),
    ):  # fmt: skip
        x = T.tensor([-1.5, 0.5, 2.0, 0.25], dtype=T.bfloat16, requires_grad=True)
        y = function(x)
        y.float().sum().backward()
        say(y.dtype, x.grad.dtype, [round(v + 0.0, 1) for v in y.reshape(-1).tolist()])


@program
def writes_of_functions_into_views(T: Any, say: Any) -> None:
    class Triple(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            return x.mul_(3)

        @staticmethod
        def backward(ctx: Any, ct: Any) -> Any:
            return ct * 3

    class Overwrite(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.mark_dirty(x)
            return x.copy_(y)

        @staticmethod
        def backward(ctx: Any, ct: Any) -> Any:
            return None, ct

    class Both(Triple):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            return x.mul_(3), x * 1

    class Neither(Triple):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            return x.mul_(3) * 1

    a = T.ones(3, requires_grad=True)
    b = a.clone()
    view, other = b[:2], b[1:]
    view.retain_grad()
    result = Triple.apply(view)
    say(result is view, b, b.grad_fn.name(), b.grad_fn.next_functions[0][0].name(), view.grad_fn.name())
    (b * T.arange(3.0)).sum().backward(retain_graph=True)
    (other * T.tensor([5.0, 7.0])).sum().backward()
    say(a.grad, view.grad)
    c = T.ones(3, 4, requires_grad=True)
    d = c * 1
    Triple.apply(d.t()[1:, :2])
    (d**2).sum().backward()
    say(c.grad)
    base, source = T.zeros(3), T.ones(2, requires_grad=True)
    result = Overwrite.apply(base[:2], source)
    say(base, base.requires_grad, result.grad_fn.name())
    (base * base).sum().backward()
    say(source.grad)
    attempt(say, lambda: Both.apply((a * 1)[:2]))
    attempt(say, lambda: Neither.apply(a * 1))
    attempt(say, lambda: Triple.apply(a))
    attempt(say, lambda: Triple.apply(a[:2]))


@program
def hooks_on_views_that_are_written(T: Any, say: Any) -> None:
    a = T.ones(3, requires_grad=True)
    b = a.clone()
    view = b[:2]
    view.register_hook(lambda ct: say("before", ct))
    view.mul_(3)
    view.register_hook(lambda ct: say("after", ct))
    (view * T.tensor([1.0, 2.0])).sum().backward()
    say(a.grad)


@program
def writes_into_what_is_not_saved(T: Any, say: Any) -> None:
    F = T.nn.functional
    functions = (
        lambda x, w: x / w, lambda x, w: 2 / x, lambda x, w: (x - x.mean(0)) / x.std(0), lambda x, w: F.normalize(x),
        lambda x, w: F.layer_norm(x, (3,)), lambda x, w: F.cosine_similarity(x, w), lambda x, w: F.softsign(x),
        lambda x, w: T.fft.fft(x).abs(),
    )  # fmt: skip
    for k, function in enumerate(functions):
        writes = (
            lambda y: y.mul_(2), lambda y: y[0].mul_(2), lambda y: y.view(-1)[1:].cos_(), lambda y: y.detach().mul_(2),
        )  # fmt: skip
        for write in writes:
            x = T.tensor([[0.5, 2.0, 1.0], [1.5, 0.7, 3.0], [0.9, 1.1, 0.3]], dtype=T.float64, requires_grad=True)
            w = T.tensor([[0.4, 0.6, 0.8], [1.0, 0.2, 0.3], [2.0, 0.5, 1.2]], dtype=T.float64, requires_grad=True)
            y = function(x * 1, w * 1)
            write(y)
            (y**3).sum().backward()
            say(k, [f"{round(v, 9) + 0.0:.5g}" for v in x.grad.flatten().tolist()])
    operands = (
        lambda x: 1 / x, lambda x: x.reciprocal(), lambda x: x.rsqrt(), lambda x: x.softmax(1),
        lambda x: x.log_softmax(1),
        lambda x: F.cross_entropy(x, T.tensor([0, 2, 1])), lambda x: T.linalg.svdvals(x),
    )  # fmt: skip
    for k, function in enumerate(operands):
        x = T.tensor([[0.5, 2.0, 1.0], [1.5, 0.7, 3.0], [0.9, 1.1, 0.3]], dtype=T.float64, requires_grad=True)
        y = x * 1
        out = function(y)
        y.zero_()
        (out * out).sum().backward()
        say(k, [f"{round(v, 9) + 0.0:.5g}" for v in x.grad.flatten().tolist()])
    x = T.tensor([0.5, 2.0], dtype=T.float64, requires_grad=True)
    y = x * 1
    out = y.rsqrt()
    y[0].add_(5)
    first = T.autograd.grad(out.sum(), x, create_graph=True)[0]
    say([f"{round(v, 9) + 0.0:.5g}" for v in T.autograd.grad(first.sum(), x)[0].tolist()])
    for function in (lambda x: x.exp(), lambda x: x.softmax(0), lambda x: x.sqrt(), lambda x: x.rsqrt()):
        y = function(x * 1)
        y.mul_(2)
        attempt(say, lambda y=y: y.sum().backward())


@program
def writes_into_repeated_memory(T: Any, say: Any) -> None:
    def repeated() -> Any:
        return T.ones(1).expand(3)

    say(repeated().fill_(2), repeated().zero_())
    attempt(say, lambda: repeated().mul_(2))
    attempt(say, lambda: repeated().__setitem__(slice(0, 2), 2.0))
    attempt(say, lambda: repeated().__setitem__(slice(None), T.ones(3)))
    x = repeated()
    x[0] = 5
    say(x)


@program
def versions_of_inference_tensors(T: Any, say: Any) -> None:
    with T.inference_mode():
        x = T.ones(2)
        x.add_(1)
    attempt(say, lambda: x._version)


@program
def losses_of_strided_operands(T: Any, say: Any) -> None:
    F = T.nn.functional
    data = T.arange(12.0, dtype=T.float64).reshape(4, 3) / 12
    for loss in (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss, F.binary_cross_entropy_with_logits):
        for reduction in ("mean", "sum", "none"):
            for target in (data[:, 1:2], data.t()[:1].t(), data.reshape(-1)[::3].reshape(4, 1)):
                w = T.full((3, 1), 0.1, dtype=T.float64, requires_grad=True)
                out = loss(data @ w, target, reduction=reduction)
                out.sum().backward()
                say(out.dim(), [f"{v:.5g}" for v in w.grad.flatten().tolist()])
        x = T.full((3, 4), 0.3, dtype=T.float64).t().requires_grad_()
        loss(x, data).backward()
        say([f"{v:.5g}" for v in x.grad.flatten().tolist()])
        say(loss(T.ones(4, dtype=T.float64), data.reshape(-1)[::3]).shape)


def lines(T: Any, program: Any) -> str:
    """Return what a program prints."""
    printed: list[str] = []
    program(T, lambda *values: printed.append(" ".join(map(str, values))))
    return "\n".join(printed) + "\n"


@program
def strides_follow_the_operands(T: Any, say: Any) -> None:
    x = T.arange(24.0).reshape(2, 3, 4)
    permuted = x.permute(2, 0, 1)
    flat = T.arange(3.0).expand(2, 3)
    for made in (
        permuted + 1, permuted * permuted.contiguous(), permuted.exp(), permuted[:, :, ::2] * 2, permuted.clone(),
        permuted.double(),
        permuted.contiguous(), permuted.sum(0), permuted.sum(0, keepdim=True), permuted.cumsum(1), permuted.softmax(0),
        permuted.sort(0).values, permuted[[0, 2]], permuted[:, [0, 1]], flat + flat, flat.clone(),
        T.zeros_like(permuted),
        T.zeros_like(flat), T.cat([permuted, permuted]), permuted.flip(0), permuted[None], x.unsqueeze(-1),
        flat.unsqueeze(0),
        x[:, 1:2].squeeze(), permuted.max(1).indices,
    ):  # fmt: skip
        say(made.stride(), made.is_contiguous())
    attempt(say, lambda: permuted.view(-1))
    attempt(say, lambda: (permuted + 1).view(4, 6))
    say(permuted.transpose(0, 2).transpose(0, 1).view(-1).stride())
    weight = T.ones(3, 4).t().requires_grad_()
    (weight * 2).sum().backward()
    say(weight.grad.stride())


@program
def views_whose_base_leaves_the_graph(T: Any, say: Any) -> None:
    x = T.ones(3, requires_grad=True)
    for write in (None, lambda base: base.mul_(3), lambda base: base.mul_(T.tensor(2.0, requires_grad=True))):
        base = x * 2
        view = base[0]
        base.detach_()
        if write is not None:
            write(base)
        say(view.requires_grad, base.requires_grad, view.grad_fn.name())
        x.grad = None
        view.backward()
        say(x.grad)
    attempt(say, lambda: view.detach_())
    base = T.zeros(3)
    view = base[0]
    base.requires_grad_()
    say(view.requires_grad, view.is_leaf, (view * 2).grad_fn.next_functions)
    attempt(say, lambda: view.mul_(2))
    (view * 2).backward()
    say(view.grad, base.grad)
    with T.no_grad():
        quiet = x.view(-1)
    say(quiet.requires_grad, quiet.grad_fn)


@program
def views_that_cannot_follow_a_write(T: Any, say: Any) -> None:
    x = T.ones(4, requires_grad=True)
    base = x * 2
    part = base.split(2)[0]
    with T.no_grad():
        quiet = base[1]
    attempt(say, lambda: part.mul_(2))
    attempt(say, lambda: quiet.mul_(2))
    base.mul_(2)
    for view in (part, quiet):
        say(view.requires_grad)
        for use in ("view.grad_fn", "view.is_leaf", "view * 2", "view.detach()"):
            attempt(say, lambda use=use, view=view: eval(use, {"view": view}))
    plain = T.zeros(4).split(2)[0]
    attempt(say, lambda: plain.mul_(2))
    attempt(say, lambda: plain.mul_(x[0]))


@program
def writes_over_shared_memory(T: Any, say: Any) -> None:
    x = T.arange(4.0)
    attempt(say, lambda: x.mul_(x[0]))
    attempt(say, lambda: x[:2].copy_(x[1:3]))
    attempt(say, lambda: x[1:].add_(x[:-1]))
    attempt(say, lambda: x.mul_(x))
    attempt(say, lambda: x[:2].copy_(x[2:]))
    attempt(say, lambda: T.zeros(1, 2).expand(2, 2).add_(1))
    attempt(say, lambda: T.zeros(1, 2).expand(2, 2).fill_(1))
    w = T.ones(1, 3, requires_grad=True)
    base = w * 2
    base.expand(2, 2, 3)[0, 0, 1] = 5.0
    say(base.detach())
    base.sum().backward()
    say(w.grad)
    old = T.ones(2)
    old.mul_(2)
    view = old[0]
    old.data = T.zeros(2)
    say(old._version, old, view)


@program
def cotangents_that_do_not_depend(T: Any, say: Any) -> None:
    x = T.tensor([1.0, 2.0], requires_grad=True)
    y = T.tensor([3.0, 4.0], requires_grad=True)
    b = T.tensor(1.0, requires_grad=True)
    for out in ((x * y + b).sum(), x @ y + b, (x / y).sum() + b, (x.exp() * y).sum() * b):
        found = T.autograd.grad(out, [x, y, b], create_graph=True)
        say([g.requires_grad for g in found])
        for g in found:
            if g.requires_grad:
                say([None if h is None else h.detach() for h in T.autograd.grad(
                    g.sum(), [x, y, b], retain_graph=True, allow_unused=True)])  # fmt: skip
    attempt(say, lambda: T.autograd.grad(T.autograd.grad((x * y).sum(), x, create_graph=True)[0].sum(), x))


@program
def nodes_show_differentiable_operands(T: Any, say: Any) -> None:
    x = T.ones(3, requires_grad=True)
    for made in (x[0], x[T.tensor([0, 1])], x * 2, x.gather(0, T.tensor([1])), 2 / x):
        say(made.grad_fn.name(), len(made.grad_fn.next_functions))
    seen = []
    y = x[1]
    y.grad_fn.register_hook(lambda inputs, outputs: seen.append((len(inputs), len(outputs))))
    y.backward()
    say(seen, x.grad)
    ran = []
    z = x * 2
    z.grad_fn.register_prehook(lambda outputs: ran.append("node"))
    z.register_hook(lambda g: ran.append("tensor"))
    T.autograd.grad(z.sum(), z, retain_graph=True)
    say(ran)
    z.sum().backward(inputs=[z])
    say(ran, z.retains_grad, z.grad)
    x.register_hook(lambda g: g * 100)
    y = x * 2
    y.register_hook(lambda g: g * 10)
    loss = (y * 3).sum()
    for wanted in ([y], [x, y], [x]):
        say(T.autograd.grad(loss, wanted, retain_graph=True))
    names = (x**2.5, 2.0**x, x.clamp(0, 1), x.clamp(min=x), x.scatter_add(0, T.tensor([0]), x), T.nn.functional.celu(x))
    say([made.grad_fn.name() for made in names])
    say([(x * 1).fill_(2.0).grad_fn.name(), (x * 1).zero_().grad_fn.name(), (x * 1).copy_(x).grad_fn.name()])


@program
def bad_states_and_parameters(T: Any, say: Any) -> None:
    nn = T.nn

    def report(function: Any) -> None:
        try:
            say(function())
        except Exception as error:
            say(type(error).__name__, error)

    report(lambda: nn.BatchNorm1d(3)(T.ones(1, 3)))
    report(lambda: nn.BatchNorm2d(3)(T.ones(1, 3, 1, 1)))
    report(lambda: nn.BatchNorm2d(3)(T.ones(2, 3)))
    report(lambda: nn.BatchNorm1d(3)(T.ones(1, 3, 2, 2)))
    report(lambda: nn.GroupNorm(3, 3)(T.ones(1, 3, 1)))
    report(lambda: nn.BatchNorm1d(3).eval()(T.ones(1, 3)).shape)
    say(nn.BatchNorm1d(3), nn.BatchNorm2d(2, affine=False))
    leaf = T.ones(2, requires_grad=True)
    report(lambda: T.optim.SGD(leaf, lr=0.1))
    report(lambda: T.optim.SGD([], lr=0.1))
    report(lambda: T.optim.SGD([leaf * 2], lr=0.1))
    report(lambda: T.optim.SGD([leaf], lr=-0.1))
    report(lambda: T.optim.Adam([leaf], betas=(1.0, 0.9)))
    report(lambda: T.optim.SGD([{"params": [leaf]}, {"params": [leaf]}], lr=0.1))
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    state = model.state_dict()
    report(lambda: model.load_state_dict({k: v for k, v in state.items() if k != "0.weight"}))
    report(lambda: model.load_state_dict({**state, "x.y": T.ones(1)}))
    report(lambda: model.load_state_dict({**state, "x.y": T.ones(1)}, strict=False))
    report(lambda: model.load_state_dict({**state, "0.weight": T.ones(2, 2)}))
    report(lambda: model.load_state_dict(state))
    report(lambda: model.load_state_dict([1]))
    report(lambda: model.register_parameter("a.b", None))
    report(lambda: model.register_buffer("0", T.ones(1)))
    report(lambda: setattr(model[0], "weight", T.ones(3, 2)))
    module = nn.Module()
    module.register_buffer("kept", T.ones(1))
    module.register_buffer("lost", T.ones(1), persistent=False)
    module.first = module.second = nn.Linear(1, 1)
    say(list(module.state_dict()), len(list(module.parameters())))
    norm = nn.BatchNorm1d(2, momentum=None)
    for k in range(3):
        norm(T.tensor([[0.0, 1.0], [2.0, k]]))
    say(norm.running_mean, norm.running_var, norm.num_batches_tracked)


@program
def half_precision_rounds_once(T: Any, say: Any) -> None:
    for dtype in (T.float16, T.bfloat16):
        x = T.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.5]], dtype=dtype)
        for made in (x.softmax(1), x.std(1), x.sum(1), x.exp(), T.nn.functional.layer_norm(x, (3,))):
            say(made.dtype, made.float())


@program
def edges_of_binary_cross_entropy(T: Any, say: Any) -> None:
    F = T.nn.functional
    for values, targets in (
        ([0.0, 1.0, 0.5], [0.0, 1.0, 1.0]), ([0.0, 1.0, 1e-13], [1.0, 0.0, 0.5]), ([0.3, 0.7, 1.0], [0.3, 0.6, 0.4]),
    ):  # fmt: skip
        for reduction in ("mean", "sum", "none"):
            p = T.tensor(values, requires_grad=True)
            t = T.tensor(targets, requires_grad=True)
            loss = F.binary_cross_entropy(p, t, T.tensor([1.0, 2.0, 3.0]), reduction=reduction)
            loss.sum().backward()
            say(loss.detach() + 0.0, p.grad, t.grad[2] + 0.0 if values[2] < 1 else None)
    x = T.tensor([-30.0, 30.0, 0.0], requires_grad=True)
    T.nn.BCELoss()(T.sigmoid(x), T.tensor([1.0, 0.0, 1.0])).backward()
    say(x.grad)


@program
def clipping_keeps_the_dtype(T: Any, say: Any) -> None:
    clip = T.nn.utils.clip_grad_norm_
    for dtype in (T.float64, T.float32, T.bfloat16, T.float16):
        for order in (2.0, 1, "inf", float("inf"), 0):
            p, q = (T.ones(shape, dtype=dtype, requires_grad=True) for shape in ((3,), (2, 2)))
            p.grad, q.grad = T.full_like(p, 3.123456789), T.full_like(q, 6.25)
            say(order, clip([p, q], 1.5, order), p.grad, q.grad)
    p, q = T.ones(2, requires_grad=True), T.ones(2, dtype=T.float64, requires_grad=True)
    p.grad, q.grad = T.tensor([3.0, 4.0]), T.tensor([3.0, 4.0], dtype=T.float64)
    say(clip([p, q], 1.0, foreach=False), p.grad, q.grad)
    for value in (float("inf"), float("nan")):
        p.grad = T.tensor([value, 1.0])
        attempt(say, lambda: clip(p, 1.0, error_if_nonfinite=True))
        say(clip(p, 1.0), p.grad)
    say(clip([T.ones(1, requires_grad=True)], 1.0))


@program
def norms_of_half_precision(T: Any, say: Any) -> None:
    x = T.tensor([[300.0, 400.0]], dtype=T.float16, requires_grad=True)
    say(x.norm(), x.norm(3), x.norm(dim=1), T.linalg.vector_norm(x), T.linalg.norm(x), T.dist(x, x * 0.5).detach())
    say(T.nn.functional.normalize(x), T.nn.functional.cosine_similarity(x, x))
    x.norm().backward()
    say(x.grad)
    say(T.tensor([3.0, 4.0], dtype=T.bfloat16).norm(1))


@program
def dtypes_of_lists(T: Any, say: Any) -> None:
    one, whole = T.tensor(1.0), T.tensor(1)
    for data in (
        [one, 2.0], [one, 0], [[one, 2.0], [3.0, 4.0]], [one.double(), 2.0], [whole, 2.0], [whole, 2],
        [T.tensor(True), 2],
        [1, one], [one, one.double()], [one.half(), 2.0], [one.half(), 2], [1j, one],
        [T.tensor([1.0]), T.tensor([2.0])],
        [np.float32(1), 2.0], [np.float32(1), 1], [np.float64(1), 1], [np.int8(1)], [np.int8(1), 1.5],
        [np.float16(1), 2.0],
        [[np.float32(1)], [2.0]], np.float64(1), [True, 1.0], [1, 1j], [], [[]], [np.ones(2), np.ones(2)],
    ):  # fmt: skip
        say(T.tensor(data))
    for data in ("a", None, {}, [None], [1, "a"], np.array(["a"]), 2**70, object(), [T.ones(2), T.ones(2)]):
        attempt(say, lambda data=data: T.tensor(data))
    say(T.nn.functional.cross_entropy(T.zeros(3, dtype=T.float64), T.tensor(0), label_smoothing=0.25))
    logits = T.tensor([[0.5, 1.0, 2.0]], dtype=T.float64)
    say(T.nn.functional.cross_entropy(logits, T.tensor([1]), label_smoothing=0.25))


@program
def functions_with_default_arguments(T: Any, say: Any) -> None:
    class Scaled(T.autograd.Function):
        @staticmethod
        def forward(x: Any, k: Any = 2, m: Any = 3) -> Any:
            return x * k * m

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            say(len(inputs), inputs[1:])
            ctx.factor = inputs[1] * inputs[2]

        @staticmethod
        def backward(ctx: Any, ct: Any) -> Any:
            say(ctx.needs_input_grad)
            return ct * ctx.factor, None, None

    class Named(Scaled):
        @staticmethod
        def forward(x: Any, k: Any = 2, *, m: Any = 3) -> Any:
            return x * k * m

    x = T.tensor([1.0, 2.0], requires_grad=True)
    for call in (
        lambda: Scaled.apply(x), lambda: Scaled.apply(x, 5), lambda: Scaled.apply(x, m=5),
        lambda: Scaled.apply(x=x, k=4),
    ):  # fmt: skip
        y = call()
        say(y, type(y.grad_fn).__name__, T.autograd.grad(y.sum(), x))
    attempt(say, lambda: Named.apply(x))


@program
def refused_hooks_on_saved_values(T: Any, say: Any) -> None:
    x = T.ones(2, requires_grad=True)
    graph = T.autograd.graph

    def hooked() -> Any:
        with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            return (x * x).sum()

    def refusing(text: str, function: Any) -> Any:
        with graph.disable_saved_tensors_hooks(text):
            return function()

    attempt(say, lambda: refusing("no hooks here", hooked))
    attempt(say, lambda: refusing("outer", lambda: refusing("inner", hooked)))
    attempt(say, lambda: refusing("no hooks here", lambda: (x * x).sum()))

    def inside_hooks() -> Any:
        with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            return refusing("no hooks here", lambda: x * x)

    attempt(say, inside_hooks)
    say(hooked())


@program
def arguments_of_gradients(T: Any, say: Any) -> None:
    p, x = T.tensor([1.0], requires_grad=True), T.tensor([1.0, 2.0], requires_grad=True)
    grad, backward = T.autograd.grad, T.autograd.backward
    for call in (
        lambda: grad("a", p), lambda: grad(None, p), lambda: grad(3, p), lambda: grad(p.sum(), None),
        lambda: grad(p.sum(), "a"), lambda: grad(p.sum(), [p, 3]), lambda: backward(None), lambda: backward("a"),
        lambda: backward([p.sum(), None]),
        lambda: p.sum().backward("a"), lambda: T.set_grad_enabled(1), lambda: T.set_grad_enabled(None),
        lambda: T.autograd.functional.jacobian(lambda x: x * x, x, strategy="bad"),
        lambda: T.autograd.functional.jacobian(lambda x: x * x, x, strategy="forward-mode"),
        lambda: T.autograd.functional.jacobian(lambda x: x * x, x, True, strategy="forward-mode", vectorize=True),
    ):  # fmt: skip
        attempt(say, call)
    for create_graph in (False, True):
        found = grad((x * x).sum(), [x, p], create_graph=create_graph, materialize_grads=True)
        say([(g.detach(), g.requires_grad) for g in found])


@program
def values_assigned_to_buffers(T: Any, say: Any) -> None:
    module = T.nn.Sequential(T.nn.BatchNorm1d(2))
    attempt(say, lambda: setattr(module[0], "running_mean", 3))
    attempt(say, lambda: setattr(module, "0", 3))
    module[0].running_mean = T.ones(2)
    module[0].running_var = None
    say(list(module.state_dict()))


@program
def functions_of_integers_and_complex_numbers(T: Any, say: Any) -> None:
    F = T.nn.functional
    for dtype in (T.uint8, T.int32, T.int64):
        x = T.tensor([1, 0, 3], dtype=dtype)
        for function in (
            lambda x: x.logsumexp(0), lambda x: x.round(), lambda x: x.std(), lambda x: x.var(0), lambda x: x.norm(),
            lambda x: x.softmax(0), lambda x: x.log_softmax(0), lambda x: x.softmax(0, dtype=T.float32),
            lambda x: x.angle(), lambda x: F.gelu(x), lambda x: F.silu(x), lambda x: F.layer_norm(x, (3,)),
            lambda x: x.logcumsumexp(0),
        ):  # fmt: skip
            try:
                value = function(x)
            except RuntimeError as error:
                say(type(error).__name__)
            else:
                say(value)
    c, b = T.tensor([1j, 2.0]), T.tensor([1.0, 4.0], dtype=T.bfloat16)
    for function in (
        lambda: b + 1j, lambda: b * c, lambda: b - c[0], lambda: 1j / b, lambda: b[0] * 1j,
        lambda: T.where(b > 1, b, 1j), lambda: b == 1j, lambda: c < c, lambda: c >= 1, lambda: T.tensor([1.0]) > 1j,
        lambda: c.sort(), lambda: c.max(),
        lambda: c.argmax(), lambda: c.median(), lambda: c // c, lambda: c.floor(), lambda: c.topk(1),
    ):  # fmt: skip
        try:
            value = function()
        except RuntimeError as error:
            say(isinstance(error, RuntimeError))
        else:
            say(value)
    attempt(say, lambda: c < c)


@program
def slopes_at_borders(T: Any, say: Any) -> None:
    F = T.nn.functional

    def slope(function: Any, values: list[float]) -> None:
        x = T.tensor(values, requires_grad=True)
        function(x).sum().backward()
        say(x.grad)

    slope(F.hardtanh, [-2.0, -1.0, 0.5, 1.0])
    slope(lambda x: F.hardtanh(x, -2.0, 3.0), [-2.0, 2.0, 3.0])
    slope(F.relu6, [0.0, 3.0, 6.0])
    slope(lambda x: x.clamp(-1, 1), [-1.0, 1.0])
    slope(lambda x: T.atan2(x, 0 * x + x[1]), [0.0, 0.0, 1.0])
    slope(lambda x: T.atan2(x[:2], x[2:]), [0.0, 1.0, 0.0, 2.0])
    say(T.atan2(T.tensor([0.0, -0.0, 0.0, 0.0]), T.tensor([0.0, -1.0, -0.0, -2.0])))


@program
def pieces_of_one_node(T: Any, say: Any) -> None:
    x = T.arange(24.0).reshape(4, 6).requires_grad_()
    for function in (
        lambda h: h.split(4, 1), lambda h: h.split([1, 5], 1), lambda h: h.chunk(3, -1), lambda h: h.unbind(1),
        tuple, lambda h: h.tensor_split(3, 1), lambda h: T.hsplit(h, [1, 4]),
    ):  # fmt: skip
        h = x * 1.0
        pieces = function(h)
        say([(p.grad_fn.name(), p.output_nr, p.grad_fn is pieces[0].grad_fn) for p in pieces])
        attempt(say, lambda pieces=pieces: pieces[0].mul_(2))
        h = x * 1.0
        pieces = function(h)
        say(T.autograd.grad((pieces[1] ** 2).sum(), x)[0])
        pieces = function(x**2)
        (g,) = T.autograd.grad((pieces[0] * 2 + pieces[0].sum()).sum(), x, create_graph=True)
        say(g.requires_grad, T.autograd.grad(g.sum(), x)[0])
    h = x * 1.0
    pieces, seen = h.unbind(0), []
    pieces[1].retain_grad()
    pieces[1].register_hook(lambda ct: 2 * ct)
    pieces[2].grad_fn.register_hook(lambda inputs, outputs: seen.append((len(inputs), [o is None for o in outputs])))
    pieces[1].sum().backward(retain_graph=True)
    say(seen, pieces[1].grad, x.grad, len(pieces[0].grad_fn.next_functions))
    h.add_(1)
    attempt(say, lambda: pieces[0] + 1)
    with T.no_grad():
        part = h.unbind(0)[0]
    attempt(say, lambda: part.mul_(2))
    say(x.detach().split(3)[0].requires_grad, T.arange(4).unbind()[1], (x[:0] * 1).split(2)[0].shape)


@program
def keys_of_positions_and_slices(T: Any, say: Any) -> None:
    x = T.arange(24.0).reshape(4, 6).requires_grad_()
    for function in (
        lambda h: h[1], lambda h: h[-1, 2], lambda h: h[1:3], lambda h: h[:, ::2], lambda h: h[-3:, 5:1],
        lambda h: h[10:], lambda h: h[:-1, -2], lambda h: h[(2, slice(None))], lambda h: h.t()[1:4, ::3],
        lambda h: h[::3, ::4],
    ):  # fmt: skip
        h = x * 1.0
        y = function(h)
        say(y, y.stride(), y.shape, y.grad_fn.name(), T.autograd.grad((y * y).sum(), x)[0])
        function(h).add_(1.0)
        say(h)
    for key in (4, -5, (0, 6), (0, 0, 0), slice(None, None, -1), (0, True)):
        attempt(say, lambda key=key: x[key])


@program
def writes_into_views(T: Any, say: Any) -> None:
    w = T.arange(32.0).reshape(8, 4).requires_grad_()
    h = w * 1.0
    h[:, 0] = h[:, 1] * 2.0
    h[0] += 1.0
    h[1, 2:] = T.tensor([[5.0]])
    h[2:4] = h[4:6]
    attempt(say, lambda: h[1:3].copy_(h[2:4]))
    attempt(say, lambda: h[0:2].add_(h[1:3]))
    attempt(say, lambda: h.__setitem__(0, T.ones(3)))
    parts = h.view(2, 4, 4).transpose(0, 1).reshape(4, 8)[:, ::2].clone()
    parts.mul_(0.5)
    parts[1:].add_(1.0)
    say(parts.stride(), (h[:, 1] * 2).stride(), (h[:, ::2].t() + 1).stride(), (h.t() * h.t()[:, :1]).stride())
    say(T.autograd.grad((parts.t() @ parts).sum(), w)[0], h._version)


@program
def hooks_of_modules_on_gradients(T: Any, say: Any) -> None:
    module = T.nn.Linear(2, 3)
    with T.no_grad():
        module.weight.copy_(T.arange(6.0).reshape(3, 2))
        module.bias.zero_()
    report = module.register_full_backward_hook(
        lambda m, inputs, outputs: say(m is module, [g is None or g.tolist() for g in (*inputs, *outputs)])
    )
    double = module.register_full_backward_pre_hook(lambda m, outputs: (outputs[0] * 2,))
    x = T.ones(1, 2, requires_grad=True)
    y = module(x)
    y.sum().backward()
    say(y.grad_fn.name(), x.grad, module.weight.grad)
    tenfold = module.register_full_backward_hook(lambda m, inputs, outputs: (inputs[0] * 10,))
    (g,) = T.autograd.grad(module(x).square().sum(), x, create_graph=True)
    say(g, g.requires_grad)
    tenfold.remove()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        module(T.ones(1, 2)).sum().backward()
        say([str(w.message)[:60] for w in caught])
    report.remove()
    double.remove()
    say(module(x).grad_fn.name() == "BackwardHookFunctionBackward")

    class Two(T.nn.Module):
        def forward(self, a: Any, n: Any, b: Any = None) -> Any:
            return a * n, (a if b is None else a * b), "text"

    def told(module: Any, inputs: Any, outputs: Any) -> None:
        say([None if g is None else g.tolist() for g in inputs], [None if g is None else g.tolist() for g in outputs])

    two = Two()
    two.register_full_backward_hook(told)
    a, b = T.ones(2, requires_grad=True), T.ones(2, requires_grad=True)
    two(a, 3, b)[0].sum().backward()
    say(a.grad, b.grad)
    first, second, _ = two(a, 3, b=b)
    (first.sum() + second.sum()).backward()
    say(a.grad, b.grad)
    two.register_full_backward_hook(lambda m, inputs, outputs: (None,))
    attempt(say, lambda: two(a, 3, b)[0].sum().backward())
    inplace = T.nn.ReLU(inplace=True)
    inplace.register_full_backward_hook(lambda *given: None)
    attempt(say, lambda: inplace(a * 1))


@program
def hooks_on_several_gradients(T: Any, say: Any) -> None:
    register = T.autograd.graph.register_multi_grad_hook
    x, y, z = (T.ones(2, requires_grad=True) for _ in range(3))

    def told(found: Any) -> None:
        say([None if g is None else g.tolist() for g in found])

    handle = register((x, y, z), told)
    p = x * y
    q = p * z
    q.sum().backward(retain_graph=True)
    p.sum().backward(retain_graph=True)
    handle.remove()
    q.sum().backward(retain_graph=True)
    first = register((p, q), lambda g: say("any", g.tolist()), mode="any")
    q.sum().backward(retain_graph=True)
    p.sum().backward(retain_graph=True)
    first.remove()
    register((p, x, q), told)
    q.sum().backward(retain_graph=True)
    p.sum().backward(retain_graph=True)
    x.grad = None
    q.sum().backward(inputs=[x], retain_graph=True)
    q.sum().backward(inputs=[p, z])
    attempt(say, lambda: register((p,), told, mode="x"))
    parts = (x * 2).unbind(0)
    register(parts, told)
    (parts[0] * 3).backward()
    with register((x, y), told):
        (x * x * y).sum().backward()
    (z * 1).sum().backward()


@program
def gradients_that_masks_choose(T: Any, say: Any) -> None:
    x = T.tensor([[0.5, -1.0, 2.0], [3.0, 0.25, -0.5]], requires_grad=True)
    for function in (
        lambda x: x.clamp(0, 1), lambda x: x.clamp(T.zeros(3), x * 2), lambda x: T.maximum(x, -x), lambda x: x.max(),
        lambda x: T.minimum(x, x * 2), lambda x: x.max(1)[0], lambda x: x.amax(0), lambda x: x.amin(),
        lambda x: T.fmax(x, -x), lambda x: T.fmin(x, x * x), lambda x: x.nan_to_num(), lambda x: x.median(),
        lambda x: x.sort(1)[0], lambda x: x.relu(), lambda x: x.abs(), lambda x: x.norm(1),
        lambda x: T.nn.functional.hardtanh(x), lambda x: T.nn.functional.leaky_relu(x),
    ):  # fmt: skip
        (g,) = T.autograd.grad(function(x).sum(), x, create_graph=True)
        (again,) = T.autograd.grad((function(x) ** 2).sum(), x, create_graph=True)
        say(g.requires_grad, again.requires_grad, T.autograd.grad(again.sum(), x)[0])


@program
def views_of_memory(T: Any, say: Any) -> None:
    x = T.arange(12.0).reshape(3, 4).requires_grad_()
    h = x * 1.0
    part = h.as_strided((2, 3), (1, 2), 1)
    say(part, part.stride(), part.storage_offset(), part.grad_fn.name())
    say(T.autograd.grad((part * part).sum(), x, retain_graph=True)[0])
    part.mul_(2.0)
    say(h, part, T.autograd.grad((h * h).sum(), x)[0])
    windows = T.as_strided(x * 1.0, (3, 3), (1, 1))
    (g,) = T.autograd.grad((windows**3).sum(), x, create_graph=True)
    say(g, T.autograd.grad(g.sum(), x)[0])
    y = T.arange(6.0)
    inner = y[2:]
    say(inner.as_strided((2,), (1,)), inner.as_strided((2,), (1,), 0), y.reshape(2, 3).t().as_strided((3,), (2,)))
    inner.as_strided((2,), (2,), 1).zero_()
    say(y, y._version, T.as_strided(y, (), ()), y.as_strided((2, 2), (0, 1)))
    for size, stride, offset in (((7,), (1,), 0), ((2,), (1,), 5), ((2, 2), (1,), 0), ((2,), (-1,), 3)):
        attempt(say, lambda given=(size, stride, offset): y.as_strided(*given).shape)


@program
def special_functions(T: Any, say: Any) -> None:
    x = T.tensor([0.0, -0.0, -1.0, 0.5, 2.0, -0.5, -2.0], dtype=T.float64, requires_grad=True)
    for function in (T.lgamma, T.digamma):
        y = function(x)
        say(y.detach(), T.autograd.grad(y.sum(), x)[0][:6:5])
    (g,) = T.autograd.grad(T.lgamma(x).sum(), x)
    say(g)
    e = T.tensor([0.0, 0.5, -0.9, 0.99999, 1.0, -1.0, 2.0], requires_grad=True)
    y = T.erfinv(e)
    say(y.detach(), T.autograd.grad(y.sum(), e)[0])
    a = T.tensor([[0.0, 1.0], [-1.0, 0.5]], dtype=T.float64, requires_grad=True)
    for scale in (0.0, 0.1, 1.0, 20.0):
        y = T.matrix_exp(a * scale)
        (g,) = T.autograd.grad(y.sum(), a, create_graph=True)
        for value in (y, g, T.autograd.grad((g * g).sum(), a)[0] if scale else y):
            say((value.detach() * 1e8).round() / 1e8 + 0.0)
    stack = T.stack([a, a * 2, a * 0]).detach()
    say(T.linalg.matrix_exp(stack).float(), T.matrix_exp(T.zeros(0, 0)).shape)
    say(T.matrix_exp(T.tensor([[0.0, 3.0], [-3.0, 0.0]])))
    attempt(say, lambda: T.matrix_exp(T.ones(2, 3)))


@program
def checkpoints(T: Any, say: Any) -> None:
    checkpoint = T.utils.checkpoint.checkpoint
    x, w = T.arange(1.0, 4.0, requires_grad=True), T.ones(3, requires_grad=True)
    runs: list[None] = []

    def f(x: Any, k: Any, b: Any = None) -> Any:
        runs.append(None)
        y = (x * w * k).sin() * x.exp()
        return y if b is None else y * b

    for reentrant in (False, True):
        x.grad = w.grad = None
        runs.clear()
        y = checkpoint(f, x, 2, use_reentrant=reentrant)
        say(y.requires_grad, len(runs))
        y.sum().backward()
        say(len(runs), x.grad, w.grad)
    y = checkpoint(f, x, 2.0, b=x, use_reentrant=False)
    say(T.autograd.grad(y.sum(), (x, w), retain_graph=True), T.autograd.grad(y.sum(), x))
    attempt(say, lambda: T.autograd.grad(y.sum(), x))
    (g,) = T.autograd.grad(checkpoint(f, x, 2.0, use_reentrant=False).sum(), x, create_graph=True)
    say(g.detach(), T.autograd.grad(g.sum(), x)[0])
    attempt(say, lambda: T.autograd.grad(checkpoint(f, x, 2.0, use_reentrant=True).sum(), x))
    attempt(say, lambda: checkpoint(f, x, 2, b=x, use_reentrant=True))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        checkpoint(f, x, 2)
        checkpoint(f, x.detach(), 2, use_reentrant=True)
        say([str(c.message)[:70] for c in caught])
    runs.clear()
    attempt(say, checkpoint(lambda x: x.sin().exp() if not runs else x * 2, x, use_reentrant=False).sum().backward)
    checkpointed = checkpoint(lambda x: f(x, 1).exp() if not runs else x.sin(), x, use_reentrant=False)
    attempt(say, checkpointed.sum().backward)
    for reentrant in (True, False):
        w.grad, ones = None, T.ones(3, requires_grad=True)
        y = checkpoint(lambda x: T.nn.functional.dropout(x * w, 0.5), ones, use_reentrant=reentrant)
        y.sum().backward()
        say(bool((y.detach() == ones.grad).all()), bool((w.grad == ones.grad).all()))
    x.grad = None
    y = checkpoint(lambda x: checkpoint(f, x.cos(), 3, use_reentrant=False) * x, x, use_reentrant=False)
    y.sum().backward()
    say(x.grad)
    x.grad = w.grad = None
    first, second, third = checkpoint(lambda a, b: (a * b, b, 3), x, w, use_reentrant=True)
    (first + second).sum().backward()
    say(x.grad, w.grad, third)
    module = T.nn.Sequential(*[T.nn.Linear(2, 2) for _ in range(5)])
    a = T.ones(1, 2, requires_grad=True)
    T.utils.checkpoint.checkpoint_sequential(module, 2, a, use_reentrant=False).sum().backward()
    say(T.allclose(T.autograd.grad(module(a).sum(), a)[0], a.grad))


@program
def positions_beside_lists(T: Any, say: Any) -> None:
    values = T.arange(18.0).view(2, 3, 3)
    mask = T.tensor([True, False, True])
    for key in (
        (0, slice(None), [0, 1, 2]), (0, ..., [1, 2]), (-1, slice(None), [0]), (1, slice(None), mask),
        (0, None, [1, 2]), (T.tensor(0), slice(None), [1, 2]), ([1, 0], slice(None), 1),
        ([1, 0], slice(None), [1, 2]), (slice(1, None), [0, 2], 1),
        ([0, 1], 1, None, [0, 2]), ([1, 0], True, [1]), (0, True, [1]), (True, 0),
    ):  # fmt: skip
        x = values.clone().requires_grad_()
        out = x[key]
        say(out, out.grad_fn.next_functions[0][0].name())
        (out * T.arange(1.0, out.numel() + 1).view(out.shape)).sum().backward()
        say(x.grad)
        written = values.clone()
        written[key] = T.arange(1.0, out.numel() + 1).view(out.shape)
        written[key] += 0.5
        say(written)
    for empty in (False, T.tensor(False)):
        say(values[empty].shape, T.tensor(3.0)[empty], T.tensor(3.0)[True])
    say(values[T.tensor([1, 0], dtype=T.uint8)].shape, values[..., 0, ...].shape)
    say(values[...].requires_grad, values.requires_grad_()[...].grad_fn.name(), values[:].grad_fn.name())
    attempt(say, lambda: values[1.5])
    attempt(say, lambda: values[0, 0, 0, [0]])


@program
def sums_of_half_and_bfloat16(T: Any, say: Any) -> None:
    F = T.nn.functional

    def gradients(function: Any, *tensors: Any) -> None:
        leaves = [t.clone().requires_grad_() for t in tensors]
        function(*leaves).sum().backward()
        say([leaf.grad.flatten()[:2].tolist() for leaf in leaves])

    for dtype in (T.float16, T.bfloat16):
        one, pairs, two = T.ones(3000, dtype=dtype), T.ones(3000, 2, dtype=dtype), T.ones(2, dtype=dtype)
        zeros = T.zeros(3000, dtype=T.int64)
        say(one.sum(), one.mean(), pairs.sum(0), one.cumsum(0)[-1], one.norm(1), one.nansum())
        say((1 + one[:60] / 50).cumprod(0)[-1], T.zeros(2, dtype=dtype).scatter_add(0, zeros, one))
        gradients(lambda x, y: x * y, one, one[:1])
        gradients(lambda x, y: x + y, pairs, two)
        gradients(lambda x: x.expand(3000, 2), two)
        gradients(F.linear, pairs, T.ones(2, 2, dtype=dtype), two)
        gradients(lambda x, i=zeros: x.gather(0, i), two)
        gradients(lambda x: x.cumsum(0), one[:300])
        gradients(lambda x: x.repeat(3000), two[:1])
        gradients(lambda x, y: F.prelu(x, y), -one, two[:1])
        mean, var = T.zeros(3, dtype=dtype), T.ones(3, dtype=dtype)
        F.batch_norm((T.arange(9000) % 5).to(dtype).view(3000, 3), mean, var, training=True)
        say(mean, var)


@program
def numpy_scalars_are_numbers(T: Any, say: Any) -> None:
    single, half, whole = T.tensor([1.0, 3.0], requires_grad=True), T.tensor([1.0, 3.0]).half(), T.tensor([1, 3])
    for number in (np.float64(2), np.float32(2), np.int64(2), np.bool_(True)):
        for x in (single, half, whole):
            say(number + x, number * x, number - x, number / x, number**x, x**number, x * number, number == x)
            say((number // x.detach()).dtype, (number % x.detach()).dtype, number < x, x <= number)
            say(T.where(x > 1, x, number), x.clamp(min=number))
    say((np.float64(2) * single).grad_fn.name(), (np.int64(2) * single * np.float32(3)).sum().item())


@program
def only_what_inputs_need_runs(T: Any, say: Any) -> None:
    grad = T.autograd.grad

    class Double(T.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, ct: Any) -> Any:
            say("Double ran")
            return ct * 2

    def run(walk: Any) -> None:
        a, b = T.tensor([1.0, 2.0], requires_grad=True), T.tensor([3.0, 4.0], requires_grad=True)
        p, q = Double.apply(a), b * 3
        r = p * q
        for name, t in (("a", a), ("b", b), ("p", p), ("q", q), ("r", r)):
            t.register_hook(lambda ct, name=name: say("hook of", name))
            t.retain_grad()
        q.grad_fn.register_prehook(lambda given: say("before q"))
        q.grad_fn.register_hook(lambda found, given: say("after q"))
        attempt(say, lambda: say(walk(a, b, p, q, r)))
        say([None if t.grad is None else t.grad.tolist() for t in (a, b, p, q, r)])

    one = T.ones(2)
    run(lambda a, b, p, q, r: grad(r.sum(), [b]))
    run(lambda a, b, p, q, r: grad(r.sum(), [q]))
    run(lambda a, b, p, q, r: grad(r.sum(), [a, q]))
    run(lambda a, b, p, q, r: grad(q, [a], one, allow_unused=True))
    run(lambda a, b, p, q, r: grad([q, p], [a], [one, one]))
    run(lambda a, b, p, q, r: r.sum().backward(inputs=[b]))
    run(lambda a, b, p, q, r: r.sum().backward(inputs=[q]))
    run(lambda a, b, p, q, r: r.sum().backward(inputs=[a]))
    run(lambda a, b, p, q, r: r.backward(one, inputs=[b], create_graph=True))


@program
def small_things(T: Any, say: Any) -> None:
    F = T.nn.functional
    leaf = T.ones(2, requires_grad=True)
    attempt(say, lambda: setattr(leaf, "data", T.arange(2)))
    T.set_printoptions(precision=2)
    T.set_printoptions(profile="default")
    say(T.tensor(1 / 3), leaf.layout, leaf.layout == T.strided)
    a, x = T.tensor([[2.0, 1.0], [1.0, 3.0]]), T.tensor([[1.0, 2.0], [3.0, 5.0]], requires_grad=True)
    for name in ("slogdet", "eigh", "svd", "qr"):
        say(str(getattr(T.linalg, name)(a)).split("\n")[0])
    bools, bytes_ = T.tensor([True, False]), T.tensor([1, 0], dtype=T.uint8)
    say(bytes_.any(), bytes_.all(0), bools.any(), bools.square(), bools.sign(), bools.sgn(), bools**2)
    for refused in (
        lambda: bools // bools, lambda: bools % bools, lambda: T.fmod(bools, bools), lambda: bools**bools,
        lambda: bools << bools, lambda: +bools, lambda: bools.abs(), lambda: bools.floor(), lambda: bools.relu(),
        lambda: bools @ bools, lambda: bools.argmax(), lambda: bools.median(), lambda: a @ a.double(),
        lambda: a @ a[0].double(),
        lambda: a[0] @ a[0].double(), lambda: a[None] @ a[None].double(), lambda: a @ T.ones(2, 2, dtype=T.int64),
        lambda: a.__setitem__(0, [1.0, 2.0]), lambda: a.__setitem__(0, (1.0, 2.0)), lambda: a.__setitem__(0, None),
        lambda: a.__setitem__([0], np.ones(2)),
    ):  # fmt: skip
        attempt(say, refused)
    z = T.tensor([1 + 2j], requires_grad=True)
    for value in (T.dist(x, 2 * x, 3), x.trace(), x.masked_select(x > 1), z.real, z.imag):
        say(value)
    for dim in (1, 2, 3, 4):
        stack = T.arange(2.0**dim).view((2,) * dim)
        for function in (F.softmax, F.log_softmax, F.softmin):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                say(function(stack).flatten()[-3:], [w.category.__name__ for w in caught])
    for warned in (lambda: a[None].T.shape, lambda: F.kl_div(a, a)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            say(warned(), [w.category.__name__ for w in caught])


@program
def shapes_given_in_place(T: Any, say: Any) -> None:
    x = T.arange(6.0).view(2, 3).requires_grad_()
    weights = T.arange(6.0)
    y = x * 2
    view = y[0]
    y.t_()
    say(y, y._version, view._version, T.autograd.grad((y * weights.view(3, 2)).sum(), x, retain_graph=True))
    say(T.autograd.grad((view * view).sum(), x))
    y = x * 1
    square = y * y
    y.unsqueeze_(0)
    attempt(say, lambda: square.sum().backward())
    y = x.clone()
    y.swapaxes_(0, 1)
    y[0] = 0
    say(y.tolist(), T.autograd.grad((y * weights.view(3, 2)).sum(), x))
    y = x * 2
    y.as_strided_((2, 2), (2, 1), 1)
    say(y, T.autograd.grad(y.sum(), x))
    y = x * 2
    y.unsqueeze_(0)
    y.detach_()
    y.mul_(2)
    say(y, y.is_leaf)
    plain = T.arange(6.0).view(1, 2, 3)
    for change in (lambda t: t.squeeze_(), lambda t: t.transpose_(0, 1), lambda t: t.unsqueeze_(-1)):
        change(plain)
        say(plain.shape, plain._version)
    plain.squeeze_().set_(T.ones(2))
    say(plain, plain._version)
    plain.resize_(1)
    say(plain, plain._version)


@program
def shapes_given_where_nothing_is_recorded(T: Any, say: Any) -> None:
    x = T.arange(6.0).view(2, 3).requires_grad_()
    with T.no_grad():
        x.t_()
    say(x, x._version, x.is_leaf)
    (x * T.arange(6.0).view(3, 2)).sum().backward()
    say(x.grad)
    y = x * 2
    with T.no_grad():
        y.t_()
    say(y, y._version)
    try:
        y.sum().backward()
    except RuntimeError as error:
        say("got [2, 3] but expected shape compatible with [3, 2]" in str(error) or error)
    y = x * 2
    rows = y[0]
    with T.no_grad():
        y.unsqueeze_(0)
    say(T.autograd.grad((y * y[0]).sum(), x, retain_graph=True), T.autograd.grad((rows**2).sum(), x))
    square = T.arange(4.0).view(2, 2).requires_grad_()
    y = square * 2
    with T.no_grad():
        y.t_()
    (y * T.arange(4.0).view(2, 2)).sum().backward()
    say(square.grad)
    y = x.contiguous() * 2
    view = y.view(2, 3)
    with T.no_grad():
        view.t_()
    say(view, y._version)
    view.mul_(3)
    (view * T.arange(6.0).view(3, 2)).sum().backward()
    say(y, x.grad)
    weight = T.nn.Parameter(T.arange(6.0).view(2, 3))
    attempt(say, lambda: weight.t_())
    with T.no_grad():
        weight.unsqueeze_(0)
    (weight * 2).sum().backward()
    T.optim.SGD([weight], 0.1).step()
    say(weight, weight._version)


@program
def bases_detached_after_a_write(T: Any, say: Any) -> None:
    x = T.arange(6.0).requires_grad_()
    for change in (lambda y: y, lambda y: y.mul_(2), lambda y: y.add_(x)):
        y = x * 2
        written, other = y[1:4], y[:2]
        written.mul_(3)
        change(y)
        y.detach_()
        say(written, other, y.requires_grad, written.requires_grad)
        attempt(say, lambda: T.autograd.grad(written.sum(), x))


@program
def functions_without_derivatives(T: Any, say: Any) -> None:
    x = T.tensor([0.5, 2.5, -1.5], requires_grad=True)
    for function in (
        lambda: x // 2, lambda: T.floor_divide(3.0, x), lambda: x.unique(), lambda: x.unique_consecutive(),
        lambda: T.unique(x, return_counts=True)[0], lambda: T.heaviside(x, T.ones(3)),
        lambda: T.bincount(T.tensor([0, 1, 1]), x), lambda: T.unique(x.view(1, 3), dim=0),
    ):  # fmt: skip
        made = function()
        say(made, made.grad_fn.name(), [n.name() for n, _ in made.grad_fn.next_functions])
        attempt(say, lambda made=made: made.sum().backward())
        say((made.detach() * 1).requires_grad, x.grad)
    with T.no_grad():
        say((x // 2).requires_grad, x.unique().requires_grad)
    for drawn in (T.normal(x, 1.0), T.normal(0.0, x.exp()), x.sigmoid().bernoulli(), T.poisson(x.exp())):
        say(drawn.grad_fn.name(), T.autograd.grad(drawn.sum(), x))
    y = x * 1
    y.zero_()
    say(y, T.autograd.grad(y.sum(), x))


@program
def memory_read_as_another_dtype(T: Any, say: Any) -> None:
    x = T.tensor([1.0, 2.0], requires_grad=True)
    say(x.view(T.int32), x.view(T.float32).requires_grad, T.tensor([1.0, -2.0]).view(T.uint8))
    y = T.tensor([[1.0, 2.0], [3.0, 4.0]])
    bits = y.view(T.int32)
    bits[0] = 0
    say(y, y._version, y.view(T.float64).shape)
    attempt(say, lambda: y.t().view(T.float64))
    attempt(say, lambda: T.ones(3).view(T.int64))
    attempt(say, lambda: T.tensor(1.0).view(T.int64))


@program
def sums_of_products_of_one_tensor(T: Any, say: Any) -> None:
    x = T.arange(8.0).view(2, 2, 2).requires_grad_()
    for text in ("iii->i", "iij->ij", "ijk->kij", "...i->i...", "iij->j", "iji", "...ii->...i", "kji->", "i...->..."):
        made = T.einsum(text, x)
        say(text, made, T.autograd.grad((made**2).sum(), x)[0])
    y = T.zeros(3, 3)
    T.einsum("ii->i", y)[:] = T.tensor([1.0, 2.0, 3.0])
    say(y)


@program
def leaves_that_get_another_shape(T: Any, say: Any) -> None:
    def gradient(change: Any, prior: bool, create_graph: bool) -> Any:
        w = T.arange(6.0).view(2, 3).requires_grad_()
        if prior:
            (w * 3).sum().backward()
        y = (w * 2).sum()
        with T.no_grad():
            change(w)
        y.backward(create_graph=create_graph)
        return w.grad

    def given(shape: Any) -> Any:
        return lambda w: setattr(w, "data", T.zeros(shape))

    changes = (
        lambda w: w.t_(), lambda w: w.unsqueeze_(0), given((3,)), given((6,)), given((2, 1)), given((4, 2, 3)),
        given((2, 3)),
    )  # fmt: skip
    for change in changes:
        for prior in (False, True):
            for create_graph in (False, True):
                attempt(say, lambda: gradient(change, prior, create_graph))
    w = T.arange(6.0).view(2, 3).requires_grad_()
    (w * 2).sum().backward()
    with T.no_grad():
        w.t_()
    for create_graph in (False, True):
        attempt(say, lambda: (w * 2).sum().backward(create_graph=create_graph))


@program
def joined_with_nothing(T: Any, say: Any) -> None:
    for shapes in (((2,), (0,)), ((2, 3), (0,)), ((0,), (2, 3)), ((2, 3), (0, 3)), ((0,), (0,)), ((0,), (0, 3))):
        parts = [T.ones(shape, requires_grad=True) for shape in shapes]
        parts[1].register_hook(lambda ct: say("arrived", ct))
        y = T.cat(parts, dim=0)
        say(y, [node.name() for node, _ in y.grad_fn.next_functions])
        y.sum().backward()
        say([part.grad for part in parts])
    x, none = T.ones(2, 3, requires_grad=True), T.ones(0, requires_grad=True)
    found = T.autograd.grad((T.cat([none, x], 1) ** 2).sum(), [x, none], create_graph=True)
    say(
        [ct.detach() for ct in found],
        T.autograd.grad(found[0].sum(), x),
        T.cat([T.ones(0, dtype=T.float64), T.ones(2)]).dtype,
    )
    attempt(say, lambda: T.cat([none, x, T.ones(2)]))
    attempt(say, lambda: T.cat([none, x, T.ones(2, 4)]))
    attempt(say, lambda: T.cat([none, x], 2))


@program
def saved_values_that_may_be_written(T: Any, say: Any) -> None:
    allowed = T.autograd.graph.allow_mutation_on_saved_tensors
    a, w = T.tensor([1.0, 2.0], requires_grad=True), T.ones(2)
    with allowed():
        b = a.square()
        c, d = b * b, b[:1]
        b.add_(1)
        e, y = d * d, a * w
        d.mul_(3)
        w.zero_()
        w[0] = 3
        (c.sum() + e.sum() + b.sum() + y.sum()).backward()
        say(a.grad, b)
        z = (a * a).sum()
        with T.no_grad():
            a.mul_(3)
        say(T.autograd.grad(z, a, create_graph=True)[0].detach())
        late = (a * a).sum()
    attempt(say, late.backward)
    with allowed():
        attempt(say, late.backward)

        def nested() -> None:
            with allowed():
                pass

        attempt(say, nested)
    b = a.exp()
    c = (b * b).sum()
    b.add_(1)
    attempt(say, c.backward)


@program
def names_of_devices(T: Any, say: Any) -> None:
    cpu, other = T.device("cpu"), T.device("cuda:1")
    say(cpu, repr(cpu), str(other), repr(other), other.type, other.index, T.device("cuda", 1) == other)
    say(cpu == other, cpu == "cpu", cpu == T.device(cpu), T.device(type="mps"), {cpu: 1}[T.device("cpu")])
    x = T.ones(2)
    say(x.device, x.device == cpu, isinstance(x.device, T.device), x.to(cpu) is x, x.to("cpu", T.float64).dtype)
    say(T.nn.Linear(1, 2).to(cpu).to(x.device, T.float64).weight.dtype, T.zeros(1, device=cpu))


@program
def names_of_nodes_of_several_steps(T: Any, say: Any) -> None:
    F = T.nn.functional
    x, y = T.arange(12.0).view(3, 4).requires_grad_(), T.ones(3, 4, requires_grad=True)
    images = T.ones(1, 4, 4, 4, requires_grad=True)
    made = [F.l1_loss(x, y, reduction=how) for how in ("mean", "sum", "none")]
    made += [
        F.smooth_l1_loss(x, y),
        F.linear(x[None], y),
        x[0] @ y.T,
        x.view(1, 3, 4) @ y.T,
        T.einsum("ij,kj->ik", x, y),
    ]
    made += [T.einsum("ij,ij->ij", x, y), T.kron(x, y), T.tensordot(x, y, 2), T.cdist(x, y), T.rot90(x), T.rot90(x, 2)]
    made += [*T.var_mean(x), *T.std_mean(x, 0), F.pad(images, (1,) * 4, mode="circular"), F.pixel_shuffle(images, 2)]
    made += [F.interpolate(images, scale_factor=2, mode=how) for how in ("nearest", "bilinear", "area")]
    made += [F.elu_(x * 1), F.dropout(x, 0.5), x.clamp_min(1), T.fft.fft(x), T.linalg.norm(x, 1), x.logcumsumexp(0)]
    made += T.nn.MultiheadAttention(4, 2, batch_first=True)(*[x.view(1, 3, 4)] * 3)
    for key in (slice(None), Ellipsis, 0, slice(None, None, 2)):
        for value in (0, y[0]):
            written = x * 1
            written[key] = value
            made.append(written)
    say([t.grad_fn.name() for t in made])
    say([node and node.name() for node, _ in made[-7].grad_fn.next_functions])
    attempt(say, lambda: x.__setitem__(slice(None), 0))


@program
def tangents_of_views_of_results(T: Any, say: Any) -> None:
    ad, x, places = T.autograd.forward_ad, T.arange(6.0).view(2, 3), T.tensor([0, 2])
    padded = T.nn.Sequential(T.nn.ReplicationPad1d(1), T.nn.Flatten(0))
    for function in (
        lambda d: d[:, [0, 1]].view(-1),
        lambda d: d[:, places].flatten(),
        lambda d: d[:, places][0],
        lambda d: d[:, places].reshape(4) * 2,
        padded,
        lambda d: d.t().exp().t().view(-1),
    ):
        with ad.dual_level():
            say(ad.unpack_dual(function(ad.make_dual(x, (x.t() + 1).contiguous().t()))))
    with ad.dual_level():
        dual = ad.make_dual(x, x + 1)[:, [0, 1]]
        dual.view(-1)[1:3].mul_(2)
        say(ad.unpack_dual(dual))


@program
def tangents_that_a_function_takes_and_gives(T: Any, say: Any) -> None:
    ad = T.autograd.forward_ad

    def function(materialize: bool, give: Any) -> Any:
        class Made(T.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any, *others: Any) -> Any:
                ctx.set_materialize_grads(materialize)
                return x * 2

            @staticmethod
            def jvp(ctx: Any, t_x: Any, *others: Any) -> Any:
                say(t_x, *others)
                return give(t_x)

        return Made

    x = T.ones(2)
    for materialize in (True, False):
        with ad.dual_level():
            doubled = function(materialize, lambda t: t * 2)
            given = (T.ones(3, dtype=T.float64), 3, T.arange(2), None, T.tensor([1j]))
            say(ad.unpack_dual(doubled.apply(ad.make_dual(x, x * 3), *given)).tangent)
    for give in (lambda t: (t, t), lambda t: 3.0, lambda t: T.ones(3)):
        with ad.dual_level():
            attempt(say, lambda give=give: function(True, give).apply(ad.make_dual(x, x)))

    class Product(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.save_for_forward(x, y)
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx: Any, ct: Any) -> Any:
            x, y = ctx.saved_tensors
            return ct * y, ct * x

        @staticmethod
        def jvp(ctx: Any, t_x: Any, t_y: Any) -> Any:
            x, y = ctx.saved_tensors
            return t_x * y + x * t_y

    pair = [T.tensor([k, k + 1.0], dtype=T.float64, requires_grad=True) for k in (1.0, 3.0)]
    say(T.autograd.gradcheck(Product.apply, pair, check_forward_ad=True))


@program
def forward_mode_of_writes(T: Any, say: Any) -> None:
    ad, nn = T.autograd.forward_ad, T.nn
    x, t = T.tensor([0.4, 0.7, 0.3]), T.tensor([1.0, 2.0, 3.0])

    def assigned(v: Any) -> Any:
        made = v.exp()
        made[0] = v[1]
        made[1:].mul_(3)
        return made

    def divided(v: Any) -> Any:
        made = v.exp()
        return made.div_(made.sin())

    own: tuple[Any, ...] = (
        lambda v: v.tanh().mul_(2),
        lambda v: v.exp().add_(1),
        lambda v: v.sqrt().sin_(),
        nn.Sequential(nn.Tanh(), nn.ELU(inplace=True)),
        assigned,
        divided,
    )
    activations = (nn.ReLU, nn.ELU, nn.SELU, nn.CELU, nn.LeakyReLU, nn.Hardtanh, nn.Hardswish)
    modules = [kind(inplace=True) for kind in activations]
    alone: tuple[Any, ...] = (
        lambda v: (v * 1).exp_(),
        lambda v: (v * v).tanh_(),
        lambda v: (v * 1).pow_(3),
        lambda v: (v * 1).div_(v + 1),
        lambda v: (v * 1).clamp_(0.2, 0.5),
        *[lambda v, module=module: module(v * v - 0.2) for module in modules],
    )
    for function in (*own, *alone):
        say(*T.func.jvp(function, (x,), (t,)), T.func.jacfwd(function)(x))
        with ad.dual_level():
            say(ad.unpack_dual(function(ad.make_dual(x, t.clone()))).tangent)
    for function in alone:
        primal, moved = x.clone().requires_grad_(), t.clone().requires_grad_()
        with ad.dual_level():
            tangent = ad.unpack_dual(function(ad.make_dual(primal * 1, moved))).tangent
        say(*T.autograd.grad((tangent * t).sum(), (primal, moved), allow_unused=True))
    for function in own:
        with ad.dual_level():
            attempt(say, function(ad.make_dual(x.clone().requires_grad_(), t)).sum().backward)


@program
def indices_and_factors_are_never_freed(T: Any, say: Any) -> None:
    x = T.arange(9.0).reshape(3, 3).requires_grad_()
    h = x[0]
    (h * h).sum().backward()
    (h * 3).sum().backward()
    say(x.grad)
    functions = (
        lambda x: x[1, 2],
        lambda x: x[:, 1],
        lambda x: x[-1],
        lambda x: x[..., 0],
        lambda x: x[None, 0],
        lambda x: x.select(1, 2),
        lambda x: x[0, 1:],
        lambda x: T.add(x, x, alpha=2),
        lambda x: T.sub(x, x.t(), alpha=2),
        lambda x: T.lerp(x, x.t(), 0.25),
        lambda x: T.select_scatter(x, x[0], 0, 1),
        lambda x: T.trapezoid(x, dx=0.5),
        lambda x: T.gradient(x)[0],
        lambda x: T.cartesian_prod(x[0], x[1]),
        lambda x: x * 2,
        lambda x: x / 2,
        lambda x: T.lerp(x, x.t(), T.tensor(0.25)),
        lambda x: x[[0, 2]],
    )
    for function in functions:
        y = function(x).sum()
        y.backward()
        attempt(say, y.backward)
    say(x.grad)
    parts = [x[i].sum() for i in range(3)]
    sum(parts).backward()
    parts[0].backward()
    say(x.grad)


@program
def numbers_are_not_packed(T: Any, say: Any) -> None:
    x = T.ones(3, 3, requires_grad=True)
    functions = (
        lambda x: x * 2,
        lambda x: 2 * x,
        lambda x: x / 4,
        lambda x: x[0],
        lambda x: x[0, 1:],
        lambda x: x.select(1, 0),
        lambda x: T.add(x, x, alpha=2),
        lambda x: T.lerp(x, x, 0.5),
        lambda x: x.clamp(0, 1),
        lambda x: T.addcmul(x, x, x, value=2),
        lambda x: x.clone().mul_(2),
        lambda x: x.clone()[0].mul_(2),
        lambda x: x * T.tensor(2.0),
    )
    for function in functions:
        packed = []

        def pack(tensor: Any, packed: list[Any] = packed) -> Any:
            packed.append(tuple(tensor.shape))
            return tensor

        with T.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            function(x).sum().backward()
        say(packed)
    say(x.grad)


@program
def as_strided_is_of_its_own_tensor(T: Any, say: Any) -> None:
    leaves = (
        lambda: T.arange(12.0).view(3, 4),
        lambda: T.arange(12.0)[2:],
        lambda: T.arange(12.0, requires_grad=True).detach()[2:],
        lambda: T.arange(12.0)[1:11:2],
        lambda: T.arange(12.0).view(3, 4).t(),
        lambda: T.arange(12.0).view(3, 4)[1],
        lambda: T.arange(12.0),
    )
    makers = (
        lambda x: x.as_strided((2, 2), (1, 2)),
        lambda x: x.as_strided((4,), (1,), 0),
        lambda x: x.as_strided((3, 2), (1, 1), 3),
        lambda x: x[1:].as_strided((2,), (1,)),
        lambda x: x[1:].as_strided((2,), (1,), 2),
        lambda x: x.as_strided((2, 2), (1, 2)).as_strided((2,), (1,)),
        lambda x: x.as_strided((3,), (1,))[1:] * x.flatten()[0],
        lambda x: (x * 1)[1:].as_strided((3,), (1,), 0),
        lambda x: (x * 1).unbind()[1].as_strided((1,), (1,)),
        lambda x: x.unbind()[1].as_strided((2,), (1,), 0),
    )
    for leaf in leaves:
        for make in makers:
            x = leaf().requires_grad_()
            made = make(x)
            say(made.requires_grad, type(made.grad_fn).__name__, made.detach())
            (made * T.arange(1.0, made.numel() + 1).reshape(made.shape)).sum().backward(retain_graph=True)
            say(x.grad)
            say(*T.autograd.grad((made**3).sum(), x))
        x = leaf().requires_grad_()
        y = x * 1
        y.as_strided((2, 2), (1, 2)).mul_(2)
        y.sum().backward()
        say(x.grad)
        attempt(say, lambda x=x: x.as_strided((2, 2), (1, 2)).mul_(2))
    z = T.view_as_real(T.arange(6.0) + 1j).requires_grad_()
    z.as_strided((2, 2), (1, 2)).sum().backward()
    say(z.grad)
    x = T.arange(12.0).view(3, 4).requires_grad_()
    row = x.clone()[1]
    with T.no_grad():
        part = row[::2]
    attempt(say, part.as_strided((2,), (1,)).sum().backward)
    say(x.grad)


@program
def a_write_that_fails_leaves_all_as_it_was(T: Any, say: Any) -> None:
    four, pair, far = T.ones(4), T.ones(2), T.tensor([9])
    calls = [lambda v, name=name: getattr(v, name)(four) for name in (
        "add_", "sub_", "mul_", "div_", "pow_", "copy_", "atan2_", "fmod_", "remainder_", "lt_", "hypot_", "copysign_",
        "xlogy_", "logical_and_", "floor_divide_", "float_power_", "clamp_",
    )]  # fmt: skip
    calls += [
        lambda v: v.mul_(1j),
        lambda v: v.add_("a"),
        lambda v: v.copy_(four[:3] * 1j),
        lambda v: v.masked_fill_(four > 0, 1.0),
        lambda v: v.masked_fill_(v > 0, pair),
        lambda v: v.masked_scatter_(v > 0, pair),
        lambda v: v.index_fill_(0, far, 1.0),
        lambda v: v.index_copy_(0, far, pair[:1]),
        lambda v: v.index_add_(0, far, pair[:1]),
        lambda v: v.index_put_((far,), pair[:1]),
        lambda v: v.scatter_(0, far, 1.0),
        lambda v: v.scatter_add_(0, far, pair[:1]),
        lambda v: v.lerp_(four, 0.5),
        lambda v: v.lerp_(four[:3], four),
        lambda v: v.addcmul_(four, four),
        lambda v: v.addcdiv_(four, four),
        lambda v: v.addmv_(T.ones(2, 2), pair),
        lambda v: v.__setitem__(slice(0, 2), four),
        lambda v: v.__setitem__(far, 1.0),
        lambda v: v.__setitem__(7, 1.0),
        lambda v: v.transpose_(0, 4),
        lambda v: v.unsqueeze_(9),
        lambda v: v.normal_(0, -1),
        lambda v: v.fill_(pair),
        lambda v: v.cumsum_(4),
    ]
    for call in calls:
        x = T.ones(3, 3, requires_grad=True)
        whole = x * 1
        view, other, seen = whole[0], whole[1:], []
        for name, tensor in (("whole", whole), ("view", view), ("other", other)):
            tensor.register_hook(lambda ct, name=name, seen=seen: seen.append(name))
        view.retain_grad()
        before = [(t.grad_fn, t._version, t.tolist()) for t in (whole, view, other)]
        for tensor in (view, whole):
            try:
                call(tensor)
            except (RuntimeError, TypeError, IndexError):
                same = [(t.grad_fn, t._version, t.tolist()) for t in (whole, view, other)] == before
                say(same, view.grad_fn.name())
            else:
                say("no error")
                break
        if tensor is whole and same:
            (view.sum() + other.sum()).backward()
            say(sorted(seen), view.grad)


@program
def inference_mode_and_tensors_from_outside(T: Any, say: Any) -> None:
    p = T.ones(2, 2, requires_grad=True)
    views = (
        lambda t: t.view(4),
        lambda t: t[0:1],
        lambda t: t[0],
        lambda t: t.unbind()[0],
        lambda t: t.split(1)[0],
        lambda t: t.diagonal(),
        lambda t: t.squeeze(),
        lambda t: t.detach(),
        lambda t: t.contiguous(),
    )
    for source in (p, p.detach().clone(), p * 1):
        for view in views:
            with T.inference_mode():
                v = view(source)
            say(
                v.is_inference(),
                v.requires_grad,
                v.grad_fn is None or v is source,
                v._version,
                (v * p.sum()).requires_grad,
            )
            try:
                say(v.add_(1) is v)
            except RuntimeError as error:
                say(str(error))
            with T.no_grad():
                v.add_(1)
            say(source._version)
    with T.inference_mode():
        with T.inference_mode(False):
            k = p * 3
            say(k.requires_grad, T.is_grad_enabled(), T.is_inference_mode_enabled())
        with T.enable_grad():
            say((p * 2).requires_grad, p.view(4).grad_fn, T.is_grad_enabled())
            with T.no_grad():
                say(T.is_grad_enabled())
            say(T.is_grad_enabled())
        with T.set_grad_enabled(True):
            say((p * 2).requires_grad, T.is_grad_enabled())
        say(T.is_grad_enabled(), T.from_numpy(np.ones(2)).is_inference())
        inner = T.ones(3)
        say(inner[1:].is_inference())
    k.sum().backward()
    say(p.grad, inner[1:].is_inference(), T.is_grad_enabled())
    with T.no_grad(), T.inference_mode(False):
        say((p * 3).requires_grad, T.is_grad_enabled())
    with T.no_grad():
        say(T.is_grad_enabled())
    whole = p * 1
    with T.inference_mode():
        v = whole[0]
    whole.add_(1)
    try:
        say(v.requires_grad)
    except RuntimeError as error:
        say(str(error))


@program
def views_of_no_grad_are_written(T: Any, say: Any) -> None:
    x = T.ones(3, requires_grad=True)
    for source in (x, x * 1):
        for make in (lambda t: t.view(3), lambda t: t.unbind()[0], lambda t: t.split(2)[1], lambda t: t[0]):
            with T.no_grad():
                v = make(source)
                for _ in range(2):
                    with T.enable_grad():
                        try:
                            say(v.mul_(2))
                        except RuntimeError as error:
                            say(str(error))
                    v.add_(1)


@program
def data_given_before_the_backward_pass(T: Any, say: Any) -> None:
    def given(values: Any, function: Any, how: Any = None) -> None:
        x = T.ones(3, requires_grad=True)
        y = function(x)
        x.data = T.tensor(values)
        if how is not None:
            how(x)
        say(x._version)
        (first,) = T.autograd.grad(y.sum(), x, create_graph=True)
        say(first.detach())
        if first.requires_grad:
            say(*T.autograd.grad(first.sum(), x))

    values = [5.0, 6.0, 7.0]
    for function in (
        lambda x: x * x,
        lambda x: x.sin() * x.sigmoid(),
        lambda x: x.view(3) ** 2,
        lambda x: (x * 2) ** 2,
        lambda x: x.exp(),
        lambda x: T.nn.functional.linear(T.ones(1, 3), x.view(1, 3)) * x,
    ):
        given(values, function)

    def again(x: Any) -> None:
        x.data = x.data * 2
        x.data.mul_(2)

    given(values, lambda x: x * x, again)
    given(np.float64(values).tolist(), lambda x: x**3)

    def written(x: Any) -> None:
        with T.no_grad():
            x.mul_(2)

    attempt(say, lambda: given(values, lambda x: x * x, written))

    def reshaped(x: Any) -> None:
        x.data = T.ones(2)

    try:
        given(values, lambda x: x * x, reshaped)
    except RuntimeError as error:
        say(type(error).__name__)
    x, w = T.ones(3, requires_grad=True), T.ones(3)
    y = x * w
    w.data = T.tensor(values)
    y.sum().backward()
    say(x.grad)
    layer = T.nn.Linear(2, 2)
    with T.no_grad():
        layer.weight.fill_(1.0)
        layer.bias.zero_()
    h = T.ones(1, 2, requires_grad=True)
    y = layer(h).pow(2).sum()
    layer.weight.data = T.full((2, 2), 3.0)
    y.backward()
    say(h.grad, layer.weight.grad, layer.weight)
    kernel = T.ones(1, 1, 2, requires_grad=True)
    h = T.ones(1, 1, 4, requires_grad=True)
    y = T.nn.functional.conv1d(h, kernel).pow(2).sum()
    kernel.data = T.full((1, 1, 2), 3.0)
    y.backward()
    say(h.grad, kernel.grad)
    x = T.ones(2, requires_grad=True)
    held = x.view(2)
    x.data = T.zeros(2)
    with T.no_grad():
        x.add_(5)
    say(held.detach(), x)
    (held * x).sum().backward()
    say(x.grad)


@program
def names_that_few_programs_use(T: Any, say: Any) -> None:
    t = T.ones(3)
    increment = T.autograd.graph.increment_version
    increment(t)
    increment([t, t])
    say(t._version)
    attempt(say, lambda: increment(3))
    leaf = T.ones(3, requires_grad=True)
    y = leaf * leaf
    increment(leaf)
    attempt(say, y.sum().backward)
    say(T.is_anomaly_check_nan_enabled())
    for check in (False, True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with T.autograd.detect_anomaly(check_nan=check):
                say(T.is_anomaly_check_nan_enabled(), T.is_anomaly_enabled())
    x = T.tensor([-1.0, 0.2, 1.0], requires_grad=True)
    say(x.hardshrink().detach(), x.hardshrink(0.1).detach())
    x.hardshrink(lambd=0.3).sum().backward()
    say(x.grad)
    say(t.new(), t.new(2, 3).shape, t.new([1, 2]), t.new(t.new(2, 1).shape).shape, t.double().new([1]).dtype)
    say(t.is_set_to(t), t.is_set_to(t[:2]), t.is_set_to(t.view(3)), t.is_set_to(t.clone()), t.is_set_to(t.detach()))
    say(t.is_shared(), t.share_memory_() is t, t.is_shared(), t.is_pinned(), t.is_meta, t.is_quantized)
    for size in (5, 1, 0):
        say(T.bartlett_window(size), T.bartlett_window(size, periodic=False), T.hann_window(size))
    say(t.bernoulli(1.0), T.bernoulli(t, 0.0))
    say(t.clone().geometric_(0.5).min() >= 1, t.clone().cauchy_().shape, t.clone().log_normal_().min() > 0)
    for bad in (
        lambda: t.clone().geometric_(),
        lambda: t.clone().geometric_(2.0),
        lambda: t.clone().cauchy_(0, -1),
        lambda: t.clone().log_normal_(0, -1),
        lambda: t.bernoulli(3.0),
    ):
        attempt(say, bad)


@program
def states_without_a_count_and_samples_without_a_batch(T: Any, say: Any) -> None:
    values = {"weight": T.ones(2), "bias": T.zeros(2), "running_mean": T.ones(2), "running_var": T.ones(2)}
    for layer in (T.nn.BatchNorm1d(2), T.nn.InstanceNorm1d(2, affine=True, track_running_stats=True)):
        say(layer.load_state_dict(values), layer.num_batches_tracked)
        state = layer.state_dict()
        del state["num_batches_tracked"]
        attempt(say, lambda layer=layer, state=state: layer.load_state_dict(state))
    whole = T.nn.Sequential(T.nn.BatchNorm1d(2))
    say(whole.load_state_dict({f"0.{name}": value for name, value in values.items()}))
    samples = [(np.ones(2), 3, "a", {"k": np.float32(2)}), (np.zeros(2), [4.0], "b", None)]
    say(list(T.utils.data.DataLoader(samples, batch_size=None)))
    say(list(T.utils.data.DataLoader(np.ones((2, 2)), batch_size=None)))
    say(list(T.utils.data.DataLoader(samples, batch_size=None, collate_fn=lambda sample: sample[2])))


@program
def needs_and_dropout(T: Any, say: Any) -> None:
    class Kept(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            say(ctx.needs_input_grad)
            return x * y

        @staticmethod
        def backward(ctx: Any, ct: Any) -> Any:
            return ct, None

    x, y = T.ones(2, requires_grad=True), T.ones(2)
    Kept.apply(x, y)
    with T.no_grad():
        say(Kept.apply(x, y).requires_grad)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        say(T.nn.functional.dropout2d(T.ones(3, 2), 0.0), T.nn.functional.dropout3d(T.ones(3, 2), 0.0).shape)
    say([type(w.message).__name__ for w in seen])
    attempt(say, lambda: T.nn.functional.dropout1d(T.ones(3)))


@program
def warnings_about_arguments(T: Any, say: Any) -> None:
    x = T.ones(2, requires_grad=True)

    def warned(function: Any) -> None:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            attempt(say, function)
        say([(type(w.message).__name__, str(w.message)[:150]) for w in seen])

    warned(lambda: T.autograd.grad((x * x).sum(), x, only_inputs=False))
    warned(lambda: T.autograd.backward(x * x, grad_variables=T.tensor([1.0, 2.0])))
    warned(lambda: T.autograd.backward(x * x, x.detach(), grad_variables=x.detach()))
    say(x.grad)
    for kind in (T.nn.RNN, T.nn.GRU, T.nn.LSTM):
        warned(lambda kind=kind: type(kind(2, 2, dropout=0.5)).__name__)
        warned(lambda kind=kind: type(kind(2, 2, 2, dropout=0.5)).__name__)
    optimizer = T.optim.SGD([x], lr=1.0)
    scheduler = T.optim.lr_scheduler.StepLR(optimizer, 2)
    optimizer.step()
    warned(lambda: scheduler.step(3))
    say(scheduler.get_last_lr())


@program
def slopes_at_edges(T: Any, say: Any) -> None:
    F = T.nn.functional
    for function, values in (
        (T.angle, [-2.0, -0.0, 0.0, 0.5]),
        (lambda x: T.complex(x, x).angle(), [0.0, 1.0]),
        (T.special.entr, [-1.0, 0.0, 0.5]),
        (lambda x: T.xlogy(x, x), [-1.0, 0.0, 0.5]),
        (lambda x: T.special.xlog1py(x, x - 1), [0.0, 0.5]),
        (lambda x: F.multi_margin_loss(x, T.tensor(1)), [0.0, 1.0, 2.0]),
        (lambda x: F.multilabel_margin_loss(x, T.tensor([1, -1, 0])), [0.0, 1.0, 2.0]),
    ):
        x = T.tensor(values, requires_grad=True)
        y = function(x)
        y.sum().backward()
        say(y.detach(), x.grad)


@program
def writes_into_views_of_numbers(T: Any, say: Any) -> None:
    makers = (
        *(lambda h, shape=shape: h.view(shape) for shape in ((), (1,), -1, (1, 1))),
        *(lambda h, shape=shape: h.reshape(shape) for shape in ((), 1)),
        *(lambda h, name=name: getattr(h, name)() for name in ("flatten", "ravel", "squeeze", "t")),
        lambda h: h.T,
        lambda h: h.transpose(0, -1),
        lambda h: h.movedim(0, 0),
        lambda h: h.permute(()),
        lambda h: h.view_as(h),
        lambda h: h.unsqueeze(0)[0],
        lambda h: h.unsqueeze(0).expand(1, 1)[0, 0],
        lambda h: T.atleast_1d(h),
        lambda h: T.atleast_3d(h)[0].t(),
        lambda h: h[...],
        lambda h: h[None].view(()),
        lambda h: h.as_strided((1, 1), (1, 1)).view(()),
        lambda h: h.view(1)[0:0],
    )
    writers = (
        lambda v, q: v.mul_(q + 3 - q),
        lambda v, q: v.mul_(q * q),
        lambda v, q: v.copy_(q),
        lambda v, q: v.fill_(q),
        lambda v, q: v.__setitem__(..., q),
        lambda v, q: v.masked_fill_(T.tensor(True), q),
        lambda v, q: v.add_(q).pow_(2),
    )
    for make in makers:
        for write in writers:
            for starts in ((2.0, 5.0), (2.0 + 1j, 5.0 - 2j)):
                x, q = (T.tensor(value, requires_grad=True) for value in starts)
                h = x * 2
                write(make(h), q)
                total = (h * h).real if h.is_complex() else h * h
                slopes = T.autograd.grad(total, (x, q), create_graph=True)
                say(h.detach(), *(slope.detach() for slope in slopes))
                if write is writers[1]:
                    say(*T.autograd.grad(sum(slopes).real if h.is_complex() else sum(slopes), (x, q)))
    z = T.tensor(2.0 + 1j, requires_grad=True)
    h = z * 2
    h.view(1).real.mul_(3)
    T.view_as_real(h.view(())).view(-1)[1:].mul_(z.imag)
    (h * h).imag.backward()
    say(h.detach(), z.grad)
    p = T.tensor([1.0, 2.0], requires_grad=True)
    loss = (p * p).sum()
    flat = loss.flatten()
    flat += p[:1]
    (slope,) = T.autograd.grad(loss**2, p, create_graph=True)
    slope.sum().squeeze().mul_(2).backward()
    say(slope.detach(), p.grad)


@program
def writes_that_reach_out_of_the_view(T: Any, say: Any) -> None:
    def outside(t: Any) -> Any:
        return t[2:8].as_strided((3,), (2,), 1)

    makers = (
        outside,
        lambda t: outside(t)[:1],
        lambda t: outside(t).view(1, 3).t()[0],
        lambda t: t.view(3, 4)[0].as_strided((3,), (5,)),
        lambda t: t.view(3, 4)[1][1:].as_strided((2, 3), (6, 1), 0)[1],
        lambda t: outside(t)[1:].as_strided((4,), (3,), 2),
        lambda t: t.as_strided((3,), (2,), 1),
    )
    for make in makers:
        for write in (
            lambda v: v.mul_(3),
            lambda v: v.add_(v.clone().square()),
            lambda v: v.copy_(v.clone().sin()),
            lambda v: v[:1].sub_(1).neg_(),
        ):
            x = T.arange(1.0, 13.0, dtype=T.float64, requires_grad=True)
            t = x * 2
            v = make(t)
            write(v)
            write(v)
            say((t * t).sum().detach(), *T.autograd.grad((t * t).sum(), x))


@program
def norms_of_negative_order(T: Any, say: Any) -> None:
    for values in ([0.0, 1.0, 2.0], [-1.0, 4.0, 2.0], [0.0, 0.0, -1.0], [0.0], [[0.0, 2.0], [-2.0, 1.0], [0.0, 1.0]]):
        for order in (-0.5, -1, -2):
            for options in ({}, {"dim": 0}, {"dim": -1, "keepdim": True}):
                x = T.tensor(values, dtype=T.float64, requires_grad=True)
                y = x.norm(order, **options)
                say(y.detach(), *T.autograd.grad(y.sum(), x))
    x = T.tensor([[0.0, 2.0], [1.0, 2.0]], requires_grad=True)
    for y in (
        T.linalg.vector_norm(x, -1, 0),
        T.linalg.norm(x[0], -1),
        T.dist(x[0], x[1], p=-1),
        T.nn.functional.normalize(x, p=-1.0, dim=0),
    ):
        say(y.detach(), *T.autograd.grad((y * y).sum(), x))
    for order in (-1.0, float("inf"), float("-inf")):
        attempt(say, lambda order=order: T.ones(0).norm(order))
        attempt(say, lambda order=order: T.ones(2, 0).norm(order, 1))
        attempt(say, lambda order=order: T.ones(2, 0).norm(order, 0))


@program
def refusals_of_empty_windows_and_roundings(T: Any, say: Any) -> None:
    F = T.nn.functional
    for function in (F.adaptive_avg_pool2d, F.adaptive_max_pool2d):
        for shape in ((1, 2, 0, 3), (2, 3, 0), (1, 0, 2, 2), (0, 2, 2, 2)):
            for size in (1, 2, (1, None)):
                attempt(say, lambda f=function, s=shape, n=size: f(T.ones(*s), n))
    for mode in ("x", "", "trunc", "floor"):
        attempt(say, lambda mode=mode: T.ones(3).div_(2, rounding_mode=mode))
    x = T.tensor([0.2, 0.9], dtype=T.float64, requires_grad=True)
    y = T.mvlgamma(x, 2)
    y.sum().backward()
    say(y.detach(), x.grad)
    b = T.tensor([-float("inf"), -1.0, 0.0, 0.5, 1.0, 2.0, float("nan")], requires_grad=True)
    for eps in (None, 0.0, 0.25):
        say(*T.autograd.grad(T.logit(b, eps).sum(), b))


@program
def data_of_another_shape(T: Any, say: Any) -> None:
    makers = (
        lambda x: (x * 2)[0],
        lambda x: (x * 2)[2:4],
        lambda x: (x * 2).view(2, 3),
        lambda x: (x * 2).view(2, 3).t(),
        lambda x: x * 2,
        lambda x: x.exp(),
        lambda x: x.sum(),
    )
    for make in makers:
        for shape in ((), (1,), (2,), (3,), (6,), (2, 2), (2, 6), (3, 2), (4, 2, 3)):
            x = T.arange(6.0, requires_grad=True)
            made = make(x)
            made.data = T.ones(shape)
            say(made.shape, made.requires_grad)
            try:
                (made * made).sum().backward()
            except RuntimeError as error:
                say("got" in str(error))
            say(x.grad)


@program
def comparisons_with_pieces_whose_base_was_written(T: Any, say: Any) -> None:
    x = T.arange(6.0, requires_grad=True)
    t = x * 2
    for pieces in (t.split(2), t.chunk(3), t.view(3, 2).unbind()):
        v = pieces[1]
        t.mul_(1)
        for function in (
            lambda v: v > 3,
            lambda v: v == v,
            lambda v: v.le(5),
            lambda v: 5 != v,
            lambda v: v.isnan(),
            lambda v: v.logical_not(),
            lambda v: v.logical_and(v),
            lambda v: v.argmax(),
            lambda v: v.bool(),
            lambda v: v.equal(v),
            lambda v: T.where(v > 5, 1.0, 2.0),
            lambda v: T.where(v > 5, v, 2.0),
            lambda v: v + 1,
            lambda v: v.sum(),
            lambda v: T.isclose(v, v.detach()),
            lambda v: T.isclose(v.detach(), v),
            lambda v: v.isfinite(),
            lambda v: v.isinf(),
        ):
            attempt(say, lambda v=v, function=function: function(v).detach())
        say(v, v.requires_grad, v.tolist())
        say(v.requires_grad_(), v.isfinite().tolist() if not T.is_grad_enabled() else "")
        with T.no_grad():
            say(v.isfinite(), T.isclose(v, v), v * 2)


@program
def hooks_of_leaves_run_in_order(T: Any, say: Any) -> None:
    functions = (
        lambda *xs: T.cat(xs),
        lambda *xs: T.stack(xs[::-1]),
        lambda *xs: sum(xs),
        lambda *xs: T.cat([x * x for x in xs]),
        lambda *xs: xs[0] * T.cat(xs[1:]).sum() * xs[-1],
    )
    for count in range(2, 10):
        for function in functions:
            for create_graph in (False, True):
                seen: list[int] = []
                leaves = [T.tensor([1.0, 2.0], requires_grad=True) for _ in range(count)]
                for k, leaf in enumerate(leaves):
                    leaf.register_hook(lambda ct, k=k, seen=seen: seen.append(k))
                function(*leaves).sum().backward(create_graph=create_graph)
                say(seen)


@program
def unpack_hooks_that_give_something_like_it(T: Any, say: Any) -> None:
    graph = T.autograd.graph
    functions = (lambda x: x * x, lambda x: x.exp(), lambda x: x.sin(), lambda x: x * T.tensor([3.0, 4.0]))
    unpacks = (
        lambda t: t[None],
        lambda t: t[:1],
        lambda t: t.double(),
        lambda t: T.tensor(2.0),
        lambda t: T.ones(3),
    )
    for function in functions:
        for unpack in unpacks:
            x = T.tensor([1.0, 2.0], requires_grad=True)
            with graph.saved_tensors_hooks(lambda t: t, unpack):
                y = function(x)
            attempt(say, y.sum().backward)
            say(x.grad)
    for pair in ((lambda t: t, 3), (3, lambda t: t)):
        try:
            with graph.saved_tensors_hooks(*pair):
                say("taken")
        except TypeError:
            say("refused")


@program
def parameters_made_in_inference_mode(T: Any, say: Any) -> None:
    plain = T.ones(2)
    with T.inference_mode():
        q, layer, outside = T.nn.Parameter(T.ones(2)), T.nn.Linear(2, 2), T.nn.Parameter(plain)
    say(*(t.is_inference() for t in (q, layer.weight, layer.bias, outside)))
    say(*(t.requires_grad for t in (q, layer.weight, layer.bias, outside)))
    attempt(say, lambda: layer(T.ones(2, requires_grad=True)).shape)
    with T.inference_mode():
        say(layer(T.ones(2)).shape)


@program
def places_in_memory_replaced(T: Any, say: Any) -> None:
    for place in (((2, 2), (1, 2)), ((2, 2), (2, 1), 1), ((2, 2), (1, 2), 2)):
        x, src = T.arange(6.0), T.tensor([[5.0, 6.0], [7.0, 8.0]], requires_grad=True)
        y = T.as_strided_scatter(x, src, *place)
        say(y)
        (y * T.arange(1.0, 7.0)).sum().backward()
        say(src.grad)
    say(T.arange(6.0).view(2, 3).t().as_strided_scatter(T.ones(2) * 9, (2,), (2,)))
    say(T.arange(6.0)[1:].as_strided_scatter(T.ones(2) * 9, (2,), (2,)))
    say(T.arange(6).as_strided_scatter(T.ones(2) * 9, (2,), (2,), 0))
    attempt(say, lambda: T.arange(6.0).as_strided_scatter(T.ones(2, 2), (2, 2), (0, 1)))
    attempt(say, lambda: T.arange(6.0).as_strided_scatter(T.ones(1), (2,), (2,)))


@program
def conjugate_views_share_memory(T: Any, say: Any) -> None:
    for dtype in (T.complex64, T.complex128):
        x = T.tensor([1 + 2j, 3 - 4j], dtype=dtype)
        c = x.conj()
        say(c, c.is_conj(), c._is_view(), c._base is x, x.is_conj(), c.conj().is_conj(), c.conj()._base is x)
        say(*(t.is_conj() for t in (c.clone(), c.detach(), c.data, c.contiguous(), c[0], c.reshape(2, 1), c * 1, c.T)))
        say(c.data_ptr() == x.data_ptr(), c[1].storage_offset(), c.is_set_to(x), c.resolve_conj() is c)
        say(c.untyped_storage().data_ptr() == x.untyped_storage().data_ptr(), x.resolve_conj() is x)
        writes = (
            lambda: c.mul_(2j), lambda: x[0].add_(5 + 1j), lambda: c.imag.add_(10), lambda: x.imag.zero_(),
            lambda: x.data.add_(1j), lambda: c.detach().sub_(2j), lambda: x.copy_(c), lambda: x.add_(c),
            lambda: c.__setitem__(0, 7j), lambda: T.view_as_real(x).mul_(3), lambda: c.real.fill_(4),
            lambda: c.imag.copy_(T.tensor([1.5, 2.5])), lambda: x.conj_physical_(), lambda: x[1:].copy_(c[:1]),
            lambda: c.conj().mul_(1j), lambda: T.real(c).mul_(2), lambda: T.imag(c[1:]).neg_(),
        )  # fmt: skip
        for write in writes:
            write()
            say(x, c, c.imag, x._version, c._version)
        say(c.sum(), c @ x, T.vdot(c, x), c == x, c.abs(), T.stack([c, x]), c.tolist(), c[0].item(), c.imag[0].item())


@program
def conjugate_matrices_are_views(T: Any, say: Any) -> None:
    m = (T.arange(6).view(2, 3) + 1j).to(T.complex64)
    for view in (m.mH, m.H, m.adjoint(), T.adjoint(m), m.T.conj(), m.conj().mT):
        say(view, view.is_conj(), view._base is m, view.stride())
    m.mH[0] = 5j
    m.H.mul_(2)
    m.adjoint()[:, 1].zero_()
    say(m, m.mH @ m)
    batch = T.stack([m, m * 1j])
    batch.mH.diagonal(0, 1, 2).fill_(3j)
    batch.conj()[:, :, ::2].mul_(1j)
    say(batch)
    batch.conj().as_strided((2, 2), (1, 3), 1).add_(1j)
    say(batch, batch.conj().as_strided((2, 2), (1, 3), 1).is_conj())
    kept = m.conj()
    m.t_()
    m.mul_(1j)
    say(m, kept, kept.is_conj())
    kept.t_()
    say(kept, kept.is_conj())


@program
def gradients_through_conjugate_views(T: Any, say: Any) -> None:
    leaf = T.tensor([1 + 2j, 3 - 4j], requires_grad=True)
    attempt(say, lambda: leaf.conj().mul_(2))
    attempt(say, lambda: leaf.conj().imag.mul_(2))
    attempt(say, lambda: leaf.conj().detach().mul_(2)._version)
    say(leaf, leaf.conj(), leaf.conj_physical(), leaf.conj().resolve_conj(), leaf.conj().imag.resolve_neg())
    factor = T.tensor([0.5 + 1j, 2 - 1j])
    writes = (
        lambda c, b: c.mul_(3 + 1j), lambda c, b: c.mul_(factor), lambda c, b: c.imag.mul_(factor.real),
        lambda c, b: c.real.copy_(factor.imag), lambda c, b: c[0].mul_(2j), lambda c, b: c.copy_(b.detach().clone()),
        lambda c, b: c[1:].add_(b[:1].clone()), lambda c, b: b.mul_(1j), lambda c, b: b[0].zero_(),
        lambda c, b: c.conj().mul_(factor), lambda c, b: T.view_as_real(b)[..., 1].mul_(3), lambda c, b: c.sin_(),
        lambda c, b: c.conj().imag.add_(b.real.clone()), lambda c, b: c.as_strided((1,), (1,), 1).mul_(2j),
    )  # fmt: skip
    for write in writes:
        for read in (lambda c, b: b, lambda c, b: c, lambda c, b: c.imag, lambda c, b: b * c):
            leaf.grad = None
            b = leaf * (1 + 1j)
            c = b.conj()
            write(c, b)
            say(b, c, b._version)
            out = read(c, b)
            (out * out.conj()).real.sum().backward()
            say(leaf.grad + 0)  # one sign of zeros
    b = leaf * leaf
    first = T.autograd.grad((b.conj() * b.mul(2j).conj()).imag.sum(), leaf, create_graph=True)[0]
    say(first.resolve_conj())
    say(T.autograd.grad(first.conj().real.sum(), leaf)[0].resolve_conj())
    with T.no_grad():
        leaf.conj().add_(1j)
        view = leaf.conj()
    say(leaf, leaf._version)
    attempt(say, lambda: view.mul_(2))
    leaf.grad = None
    (leaf * leaf).abs().sum().backward()
    kept = leaf.grad.conj()
    (leaf * leaf).abs().sum().backward()
    say(leaf.grad, kept)


@program
def conjugate_views_and_numpy(T: Any, say: Any) -> None:
    x = T.tensor([1 + 2j, 3 - 4j])
    c = x.conj()
    for view in (c, c.imag, c[1:].imag, c.mul(1), c.real, x.imag):
        say(view.is_conj(), view.is_neg(), T.is_conj(view), T.is_neg(view))
        attempt(say, view.numpy)
        attempt(say, lambda view=view: np.asarray(view))
        say(view.resolve_conj().resolve_neg().numpy().tolist(), view.numpy(force=True).tolist())
    attempt(say, lambda: type(T.view_as_real(c)).__name__)
    attempt(say, lambda: T.view_as_real(c.resolve_conj()))
    say(copy.deepcopy(c), copy.deepcopy(c).is_conj())
    empty = T.zeros(0, dtype=T.complex64).conj()
    say(empty, empty.is_conj(), empty.imag.is_neg(), empty.conj().is_conj())
    parameter = x.conj().requires_grad_()
    optimizer = T.optim.SGD([parameter], lr=0.5)
    parameter.abs().sum().backward()
    optimizer.step()
    say(parameter, x, parameter.is_leaf)
    pairs = T.ones(3, 2)
    T.view_as_complex(pairs).conj().mul_(2j)
    say(pairs)
    with T.inference_mode():
        y = T.ones(2, dtype=T.complex64)
        y.conj().mul_(2j)
        say(y, y.conj().is_inference())
    z = T.ones(2, dtype=T.complex64)
    old = z.conj()
    z.data = T.full((2,), 3j)
    old.mul_(2j)
    say(z, old, z.conj())


@program
def leaves_of_another_shape_between_passes(T: Any, say: Any) -> None:
    makers = (lambda x: x * 2, lambda x: x.exp(), lambda x: x[1:] * 2)
    for make in makers:
        for data in (T.tensor([4.0, 5.0]), T.tensor(4.0), T.tensor([4.0]), T.ones(2, 3) * 2, T.ones(3) * 2):
            for again in (False, True):
                x = T.tensor([1.0, 2.0, 3.0], requires_grad=True)
                y = make(x)
                if again:
                    y.sum().backward(retain_graph=True)
                x.data = data.clone()
                y.sum().backward()
                say(x.shape, x.grad)
                try:
                    (x * x).sum().backward()
                except RuntimeError as error:
                    say("got" in str(error))
                say(x.grad)
                x.grad = y = None
                (x * x).sum().backward()
                say(x.grad)
    shapes = (
        lambda x: x.unsqueeze_(0), lambda x: x.unsqueeze_(-1), lambda x: x.t_(), lambda x: x.squeeze_(0),
    )  # fmt: skip
    for change in shapes:
        for shape in ((2, 3), (1, 3)):
            for again in (False, True):
                x = T.ones(shape, requires_grad=True)
                y = x * T.arange(6.0).view(2, 3)[: shape[0]]
                if again:
                    y.sum().backward(retain_graph=True)
                with T.no_grad():
                    change(x)
                for walked in (y, y, x * x):
                    try:
                        walked.sum().backward(retain_graph=True)
                    except RuntimeError as error:
                        say("got" in str(error))
                    say(x.shape, x.grad)
    x = T.ones(2, 3, requires_grad=True)
    total = x.sum()
    with T.no_grad():
        x.unsqueeze_(0)
    x.register_hook(lambda ct: say(ct.shape))
    say(T.autograd.grad((total * x).abs().sum(), [total, x]))


@program
def data_that_is_no_tensor(T: Any, say: Any) -> None:
    for data in ([1.0], 1.0, None, np.ones(2), "a"):
        x = T.ones(2)
        attempt(say, lambda x=x, data=data: setattr(x, "data", data))
        say(x)
    with T.inference_mode():
        inferred = T.ones(2)
    attempt(say, lambda: T.nn.Parameter(inferred))
    say(T.nn.Parameter(inferred, requires_grad=False).is_inference())
    x = T.ones(3, requires_grad=True)
    y = x.sin()
    x.data = T.tensor([1 + 2j, 2, 3])
    try:
        y.sum().backward()
    except RuntimeError:
        say("refused", x.grad)


@program
def random_numbers_of_dtypes(T: Any, say: Any) -> None:
    dtypes = (T.bool, T.uint8, T.int64, T.float32, T.float64, T.complex64, T.complex128)
    makers = (
        lambda d: T.normal(T.zeros(2, dtype=d), 1.0),
        lambda d: T.normal(T.zeros(2, dtype=d), T.ones(2)),
        lambda d: T.normal(T.zeros(2), T.ones(2, dtype=d)),
        lambda d: T.normal(0.0, T.ones(2, dtype=d)),
        lambda d: T.normal(0.0, 1.0, (2,), dtype=d),
        lambda d: T.rand(2, dtype=d),
        lambda d: T.randn(2, dtype=d),
        lambda d: T.rand_like(T.zeros(2, dtype=d)),
        lambda d: T.randn_like(T.zeros(2, dtype=d)),
        lambda d: T.randint(0, 2, (2,), dtype=d),
        lambda d: T.randint(0, 300, (2,), dtype=d),
        lambda d: T.randint(-1, 2, (2,), dtype=d),
        lambda d: T.randint_like(T.zeros(2, dtype=d), 2),
        lambda d: T.randperm(2, dtype=d),
        lambda d: T.zeros(2, dtype=d).normal_(),
        lambda d: T.zeros(2, dtype=d).uniform_(),
        lambda d: T.zeros(2, dtype=d).exponential_(),
        lambda d: T.zeros(2, dtype=d).cauchy_(),
        lambda d: T.zeros(2, dtype=d).log_normal_(),
        lambda d: T.zeros(2, dtype=d).geometric_(0.5),
        lambda d: T.zeros(2, dtype=d).bernoulli_(0.5),
        lambda d: T.zeros(2, dtype=d).random_(),
        lambda d: T.zeros(2, dtype=d).random_(0, 2),
        lambda d: T.bernoulli(T.zeros(2, dtype=d)),
        lambda d: T.bernoulli(T.zeros(2, dtype=d), 0.5),
        lambda d: T.poisson(T.zeros(2, dtype=d)),
        lambda d: T.multinomial(T.ones(2, dtype=d), 1),
        lambda d: T.binomial(T.ones(2, dtype=d), T.ones(2, dtype=d)),
        lambda d: T.nn.init.normal_(T.zeros(2, dtype=d)),
        lambda d: T.nn.init.uniform_(T.zeros(2, dtype=d)),
        lambda d: T.nn.functional.dropout(T.ones(2, dtype=d)),
    )
    for k, make in enumerate(makers):
        for dtype in dtypes:
            try:
                made = make(dtype)
                say(k, dtype, made.dtype, made.is_complex() and bool((made.imag != 0).all()))
            except (RuntimeError, ValueError) as error:
                say(k, dtype, type(error).__name__)
    for call in (
        lambda: T.normal(1j, 1.0, (2,)), lambda: T.normal(T.zeros(2), 1j), lambda: T.zeros(2).normal_(1j),
        lambda: T.normal(0.0, T.ones(2, dtype=T.complex64)), lambda: T.zeros(2).random_(2.5),
        lambda: T.nn.init.trunc_normal_(T.zeros(2, dtype=T.complex64)),
    ):  # fmt: skip
        try:
            say(call())
        except (RuntimeError, TypeError) as error:
            say(type(error).__name__)
    T.manual_seed(0)
    many, kind = 40000, T.complex64
    for drawn in (
        T.normal(1.0, 2.0, (many,), dtype=kind), T.zeros(many, dtype=kind).normal_(1.0, 2.0),
        T.normal(T.ones(many, dtype=kind) * 1j, 2.0), T.normal(T.ones(many, dtype=kind) * 1j, T.ones(many) * 2),
        T.zeros(many, dtype=kind).uniform_(1, 2), T.rand(many, dtype=kind), T.randn(many, dtype=kind),
        T.nn.init.uniform_(T.zeros(many, dtype=kind), 1, 2), T.nn.init.normal_(T.zeros(many, dtype=kind), 1, 2),
    ):  # fmt: skip
        parts = drawn.real.mean(), drawn.imag.mean(), drawn.real.std(), drawn.imag.std()
        say(*(abs(round(float(part), 1)) for part in parts))


@program
def distances_of_no_columns(T: Any, say: Any) -> None:
    for shapes in (((2, 0), (3, 0)), ((0, 3), (2, 3)), ((2, 2, 0), (2, 3, 0)), ((0, 0), (0, 0))):
        for p in (0.0, 1.0, 1.5, 2.0, float("inf")):
            x, y = (T.ones(shape, requires_grad=True) for shape in shapes)
            found = T.cdist(x, y, p)
            found.sum().backward()
            say(found.detach(), x.grad, y.grad)


@program
def second_derivatives_of_what_is_linear(T: Any, say: Any) -> None:
    F = T.nn.functional
    for function in (
        lambda x: F.avg_pool1d(x, 2),
        lambda x: F.avg_pool2d(x[None], 2),
        lambda x: F.nll_loss(x, T.tensor([0, 1])),
        lambda x: F.nll_loss(x, T.tensor([0, 1]), reduction="none"),
        lambda x: x**1,
    ):
        x = T.tensor([[0.3, -0.7], [1.2, 0.45]], requires_grad=True)
        first = T.autograd.grad(function(x).sum(), x, create_graph=True)[0]
        say(first.detach(), first.requires_grad, T.autograd.grad(first.sum(), x)[0])


@program
def places_that_do_not_overlap_are_written(T: Any, say: Any) -> None:
    for place in (
        ((2, 2), (1, 2)),
        ((3,), (2,)),
        ((2, 2), (1, 3)),
        ((1, 3), (0, 1)),
        ((2, 2), (4, 2)),
        ((2, 2, 2), (4, 1, 2)),
    ):
        for cut in (lambda t: t, lambda t: t.detach(), lambda t: t.data):
            x = T.arange(8.0)
            cut(x.as_strided(*place)).mul_(2).add_(1)
            cut(x.unfold(0, 2, 3)).mul_(3)
            say(x)


@program
def conjugates_of_numbers_and_reals(T: Any, say: Any) -> None:
    for x in (T.tensor(1 + 2j), T.tensor(2.0), T.tensor([1 + 2j]), T.tensor([1.0, 2.0])):
        x.requires_grad_()
        for name in ("H", "mH", "mT"):
            try:
                say(name, getattr(x, name))
            except RuntimeError:
                say(name, "refused")
        attempt(say, lambda x=x: T.adjoint(x))
    real = T.ones(2, requires_grad=True)
    say(real.conj_physical() is real, real.conj() is real, real.resolve_conj() is real, real.adjoint is not None)
    attempt(say, lambda: real.conj_physical_())
    y = T.tensor([1 + 2j, 3 - 4j], requires_grad=True) * 1
    say(y.conj_physical_().grad_fn.name(), y._version, T.vdot(y, y).grad_fn.name(), T.dot(y, y).grad_fn.name())
    narrow = T.ones(2, dtype=T.complex64)
    narrow.mul_(T.tensor([2.0, 3.0], dtype=T.float64, requires_grad=True))
    say(narrow, narrow.grad_fn.name())
    attempt(say, lambda: T.view_as_complex(T.arange(3.0)[1:]))
    say(T.view_as_complex(T.arange(4.0)[2:]))


@program
def retained_gradients_are_row_major(T: Any, say: Any) -> None:
    for make in (lambda t: t.movedim(0, -1), lambda t: t.t(), lambda t: t.t() * 2, lambda t: t.T.conj()):
        for inputs in (False, True):
            for create_graph in (False, True):
                leaf = T.ones(2, 3, requires_grad=True)
                made = make(leaf * 1)
                if not inputs:
                    made.retain_grad()
                given = {"inputs": [made]} if inputs else {}
                (made * T.arange(6.0).view(3, 2)).sum().backward(create_graph=create_graph, **given)
                say(made.stride(), made.grad.stride(), made.grad)


@program
def views_made_where_nothing_is_recorded_are_no_roots(T: Any, say: Any) -> None:
    for dtype in (T.float64, T.complex128):
        leaf = T.ones(2, 3, dtype=dtype, requires_grad=True)
        for view in (lambda t: t[0], lambda t: t.view(-1), lambda t: t.t(), lambda t: t.select(0, 0)):
            with T.no_grad():
                made = view(leaf)
            say(made.requires_grad, made.grad_fn, made.is_leaf)
            attempt(say, lambda made=made: made.backward(T.ones_like(made)))
            attempt(say, lambda made=made: T.autograd.grad(made, leaf, T.ones_like(made)))


@program
def conjugate_views_in_modes_functions_and_writes(T: Any, say: Any) -> None:
    x, t = T.tensor([1 + 2j, 3 - 4j]), T.tensor([1j, 2.0])
    dual_numbers, func = T.autograd.forward_ad, T.func
    with dual_numbers.dual_level():
        d = dual_numbers.make_dual(x.clone(), t.clone())
        steps = (
            lambda: d.conj(), lambda: d.conj().imag, lambda: d.conj() * d, lambda: d.conj().mul_(2j), lambda: d,
            lambda: d.imag.add_(3), lambda: d.conj(),
        )  # fmt: skip
        for step in steps:
            primal, tangent = dual_numbers.unpack_dual(step())
            say(primal, tangent)

    def turned(z: Any) -> Any:
        made = z * 1
        made.conj().mul_(2j)
        return made.real.sum()

    say(func.vjp(lambda z: z.conj() * z, x)[1](t)[0].resolve_conj(), func.jvp(lambda z: z.conj() * z, (x,), (t,)))
    say(func.grad(lambda z: (z.conj() * z * z).real.sum())(x), func.grad(turned)(x))

    class Conjugate(T.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            return a.conj()

        @staticmethod
        def backward(ctx: Any, ct: Any) -> Any:
            return ct.conj() * 2

    leaf = T.tensor([1 + 2j, 3 - 4j], requires_grad=True)
    made = Conjugate.apply(leaf)
    made.imag.sum().backward()
    say(made.is_conj(), leaf.grad)
    attempt(say, lambda: Conjugate.apply(leaf).mul_(2))
    made = Conjugate.apply(leaf.conj())
    (made * made).real.sum().backward()
    say(made.is_conj(), leaf.grad)
    for write in (lambda b, c: b.add_(1), lambda b, c: c.add_(1), lambda b, c: c.imag.zero_()):
        b = leaf * 2
        c = b.conj()
        y = c.sin().real.sum()
        write(b, c)
        attempt(say, y.backward)
    matrix = T.nn.Parameter(T.tensor([[1 + 1j, 2.0], [3, 4j]]))
    optimizer, kept = T.optim.Adam([matrix], lr=0.1), matrix.detach().mH
    for _ in range(3):
        optimizer.zero_grad()
        (matrix.mH @ matrix).abs().sum().backward()
        optimizer.step()
    say(kept, matrix)
    u = T.zeros(3, 2, dtype=T.complex64)
    u.conj().copy_(T.ones(2) * 1j)
    u.conj()[1].add_(2)
    say(u)
    out = T.zeros(2, dtype=T.complex64)
    T.mul(x, t, out=out.conj())
    say(out)
    h = T.zeros(4, dtype=T.complex64)
    c = h.conj()
    h[1:3], h[[0, 3]] = x, t
    say(c)
    c[c.real > 1] = 0
    h.index_put_((T.tensor([0]),), T.tensor(5j))
    say(h, c)
    c.scatter_(0, T.tensor([2]), T.tensor([1j]))
    say(h, T.equal(c, h.conj()))
    h.resize_(2)
    say(h, c)
    say(
        x.conj().to(T.complex128),
        x.conj().real.numpy().tolist(),
        T.tensor(x.conj()),
        T.as_tensor(c).is_conj(),
        [*x.conj()],
    )


@program
def hooks_behind_linear_layers_run_in_order(T: Any, say: Any) -> None:
    F, nn = T.nn.functional, T.nn
    rows = (
        (lambda x, w, b: F.linear(x, w, b), (4, 3), (2, 3), (2,)),
        (lambda x, w: F.linear(x, w), (4, 3), (2, 3)),
        (lambda x, w: F.linear(x, w), (5, 4, 3), (2, 3)),
        (lambda x, w, b, v, c: F.linear(F.linear(x, w, b).tanh(), v, c), (4, 3), (2, 3), (2,), (5, 2), (5,)),
        (lambda x, w, v: F.linear(F.linear(x, w).tanh(), v), (4, 3), (2, 3), (5, 2)),
        (lambda x, w, b: F.linear(x * 2, w, b), (4, 3), (2, 3), (2,)),
        (lambda x, w, b: F.linear(x * 2, w, b), (5, 4, 3), (2, 3), (2,)),
        (lambda x, w, b: F.linear(x, w * 2, b), (4, 3), (2, 3), (2,)),
        (lambda x, w, b: F.linear(x, w, b * 2), (4, 3), (2, 3), (2,)),
    )
    for function, *shapes in rows:
        for create_graph in (False, True):
            seen: list[Any] = []
            leaves = [T.ones(shape, requires_grad=True) for shape in shapes]
            for k, leaf in enumerate(leaves):
                leaf.register_hook(lambda ct, k=k, seen=seen: seen.append(k))
            function(*leaves).sum().backward(create_graph=create_graph)
            say(seen)
    nets = (
        (nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)),
        (nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2), nn.LayerNorm(2)),
        (nn.Linear(3, 4, bias=False), nn.ReLU(), nn.Linear(4, 2, bias=False)),
    )
    for layers in nets:
        seen, net = [], nn.Sequential(*layers)
        for name, parameter in net.named_parameters():
            parameter.register_hook(lambda ct, name=name, seen=seen: seen.append(name))
        net(T.ones(4, 3)).sum().backward()
        say(seen)


@program
def elements_in_one_axis(T: Any, say: Any) -> None:
    x = T.zeros(4, 2)
    x[:, 0].ravel().fill_(1.0)
    T.ravel(x.t()).fill_(2.0)
    say(x, x[:, 0].ravel().stride(), x[:, 0].reshape(-1).stride(), x.ravel().data_ptr() == x.data_ptr())
    x[:, 0].flatten().fill_(3.0)
    say(x)


@program
def gradients_have_no_negative_strides(T: Any, say: Any) -> None:
    w = T.arange(6.0).reshape(2, 3)
    functions = (
        lambda z: z.cumsum(1) ** 2, lambda z: z.cumsum(0) ** 2, lambda z: z.flip(0) * w, lambda z: z.flip(0, 1) * w,
        lambda z: z.fliplr() * w, lambda z: z.cumprod(1) * w,
    )  # fmt: skip
    for function in functions:
        for create_graph in (False, True):
            z = T.ones(2, 3, requires_grad=True)
            (g,) = T.autograd.grad(function(z).sum(), z, create_graph=create_graph)
            say(g.detach(), g.stride(), g.is_contiguous())
            g.view(-1)


@program
def values_at_the_edge_of_their_kind(T: Any, say: Any) -> None:
    a = T.tensor(1.0)
    a.masked_scatter_(T.tensor(True), T.tensor([5.0, 6.0]))
    say(a, T.tensor(1.0).masked_scatter(T.tensor(False), T.tensor([5.0])))
    a = T.arange(4.0)
    say(a.resize_as_(T.zeros(2, 2)), a.shape)
    say(T.cov(T.arange(3.0).reshape(1, 3)), T.cov(T.arange(3.0)), T.cov(T.arange(6.0).reshape(2, 3)))
    inf, nan = float("inf"), float("nan")
    numbers = T.tensor([complex(inf, 1.5), complex(nan, -inf), 1 + 2j])
    say(numbers.nan_to_num(nan=3.0, posinf=4.0, neginf=5.0))
    small = T.tensor([8], dtype=T.uint8)
    say(T.gcd(T.tensor(-1, dtype=T.int8), small), T.lcm(T.tensor(3), small), T.gcd(T.tensor([-6]), small))


@program
def values_from_the_memory_that_is_written(T: Any, say: Any) -> None:
    """One number is read first; of others torch refuses some overlaps."""
    writes = (
        lambda x, i: x.__setitem__(x > 1.5, x[0]), lambda x, i: x.__setitem__(x > 0, x[:1]),
        lambda x, i: x.masked_fill_(x > 0, x[1]), lambda x, i: x.index_fill_(0, i[:2], x[0]),
        lambda x, i: x.masked_scatter_(x > 2, x[:2]), lambda x, i: x.__setitem__(i[:3], x[:3]),
        lambda x, i: x.__setitem__(x > -9, x), lambda x, i: x.__setitem__(x > -9, x.view(-1)),
        lambda x, i: x.__setitem__(i, x), lambda x, i: x.__setitem__(i[:1], x[0]),
        lambda x, i: x.index_copy_(0, i, x), lambda x, i: x.index_add_(0, i, x), lambda x, i: x.scatter_(0, i, x),
        lambda x, i: x.scatter_add_(0, i, x[:]), lambda x, i: x.index_put_((i,), x, accumulate=True),
        lambda x, i: x.put_(i, x), lambda x, i: x.index_reduce_(0, i, x, "amax"),
        lambda x, i: x.scatter_reduce_(0, i, x, "sum"), lambda x, i: x.__setitem__(i > 1, x.clone()[1]),
    )  # fmt: skip
    for write in writes:
        for recorded in (False, True):
            leaf = T.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=recorded)
            x, i = leaf * 1, T.tensor([3, 0, 2, 1])
            try:
                write(x, i)
            except RuntimeError as error:
                say(str(error).split(".")[0])
                continue
            say(x.detach())
            if recorded:
                (x * x).sum().backward()
                say(leaf.grad)
    m = T.arange(9.0).reshape(3, 3)
    m[m > 2] = m[0, 1]
    say(m, m.fill_diagonal_(m[0, 0]), m.addr_(T.ones(3), T.ones(3)))


@program
def spreads_of_very_large_and_small_numbers(T: Any, say: Any) -> None:
    for scale in (1.0, 1e19, 1e30, 1e-25, 1e-38):
        for dtype in (T.float32, T.float64):
            for spread in (lambda x: x.std(), lambda x: T.std_mean(x)[0], lambda x: x.std(0, keepdim=True).sum()):
                x = (T.tensor([1.0, 2.0, 4.0], dtype=T.float64) * scale).to(dtype).requires_grad_()
                y = spread(x)
                y.backward()
                say(f"{y.item() / scale:.5f}", [f"{g:.5f}" for g in x.grad.tolist()])
    for dtype in (T.float16, T.bfloat16, T.complex64):
        x = T.tensor([1.0, 2.0, 4.0], dtype=dtype)
        say(T.var_mean(x), x.var())


@program
def negative_powers_at_the_ends(T: Any, say: Any) -> None:
    inf = float("inf")
    for exponent in (-1, -2, -3, -4, -5, -1.5):
        x = T.tensor([inf, 0.0, -0.0, 1e38, 1e-45, 1e9, -3.0, 1e-8], requires_grad=True)
        (first,) = T.autograd.grad((x**exponent).sum(), x, create_graph=True)
        say((x**exponent).detach(), first.detach())
        say(T.autograd.grad(first[5:].sum(), x)[0][5:])


@program
def what_has_no_error(T: Any, say: Any) -> None:
    whole, real = T.tensor([-2, 0, 3]), T.tensor([-2.0, 0.0, 3.0])
    say(T.heaviside(whole, T.tensor([7, 8, 9])), T.heaviside(real, T.ones(3) / 2), real.clone().heaviside_(T.ones(3)))
    say(T.isin(real.bfloat16(), T.tensor([-2])), T.float_power(real, 2j)[2], T.ldexp(real, T.ones(3) * 1j)[2])
    say(T.trapezoid(T.zeros(0)), T.trapezoid(T.zeros(2, 0)), T.cumulative_trapezoid(T.zeros(2, 0)).shape)
    rows = T.tensor([[1, 2], [1, 2], [3, 2], [1, 2]])
    say(rows.unique_consecutive(dim=0, return_inverse=True, return_counts=True), rows.unique_consecutive(dim=1))
    say(whole.clone().gcd_(T.tensor([4, 5, 6])), T.lcm_(whole.clone(), T.tensor([4, 5, 6])), T.is_signed(whole))
    say(T.ldexp_(real.clone(), T.tensor([1.0, 2.0, 3.0])), T.i0_(real.clone()), real.clone().nextafter_(real + 1))
    say(T.zeros(0).roll((1, 1), (0, 1)).shape, T.vander(real, 0).shape)
    for dtype in (T.int64, T.int32, T.uint8, T.float32):
        for bounds in ((0.5, 5.7, 1.5), (0, 2.9, 1), (2.9, 0, -1.3), (0, 5, 2)):
            say(T.arange(*bounds, dtype=dtype))


@program
def transforms_of_what_others_depend_on(T: Any, say: Any) -> None:
    """Graphs are kept where, and only where, somebody can ask for more derivatives."""
    func, x = T.func, T.tensor([1.0, 2.0])
    w = T.tensor([3.0, 4.0], requires_grad=True)
    plain = func.grad(lambda a: (a.sin() * a).sum())(x)
    closed = func.grad(lambda a: (a * a * w).sum())(x)
    say(plain.requires_grad, closed.requires_grad, T.autograd.grad(closed.sum(), w)[0])
    found, (value, aux) = func.grad_and_value(lambda a: ((a * a).sum(), a * w), has_aux=True)(x)
    say(found.requires_grad, value.requires_grad, aux.requires_grad, T.autograd.grad(aux.sum(), w)[0])
    out, pull = func.vjp(lambda a: a * a, x)
    ct = T.ones(2, requires_grad=True)
    say(out.requires_grad, pull(T.ones(2))[0].requires_grad, T.autograd.grad(pull(ct)[0].sum(), ct)[0])
    say(func.vmap(func.grad(lambda a: (a**3).sum()))(T.arange(6.0).view(3, 2)), func.hessian(lambda a: (a**3).sum())(x))
    say(func.jacrev(lambda a: a * w)(x).requires_grad, func.jacrev(func.jacrev(lambda a: (a**3).sum()))(x))
    say(func.jvp(func.grad(lambda a: (a**3).sum()), (x,), (T.ones(2),)))


@program
def lines_of_complex_numbers(T: Any, say: Any) -> None:
    say(T.tensor([1.492e-06 + 19730j, -0.002734j, 650300 + 46730j]))
    say(T.tensor([1.492e-06 + 19730j] * 7, dtype=T.complex128), T.tensor([[2e9 + 1j, 3.5j, 1]] * 2))
    for count in (3, 4, 5, 6, 7):
        say(T.tensor([1.5 - 2j] * count), T.tensor([10.0 + 2j] * count))


@program
def copies_of_inference_tensors(T: Any, say: Any) -> None:
    with T.inference_mode():
        made = T.ones(2)
    written = pickle.dumps(made)
    say(made.is_inference(), pickle.loads(written).is_inference(), copy.deepcopy(made).is_inference())
    with T.inference_mode():
        say(pickle.loads(written).is_inference(), copy.deepcopy(made).is_inference())


@program
def gradients_of_running_log_sums_are_row_major(T: Any, say: Any) -> None:
    for dim in (0, 1):
        for create_graph in (False, True):
            z = T.arange(6.0).view(2, 3).requires_grad_()
            y = z.logcumsumexp(dim)
            (g,) = T.autograd.grad(y, z, T.ones(2, 3) * 2, create_graph=create_graph)
            say(y.detach(), y.stride(), g.detach(), g.stride())


@program
def not_a_number_comes_last_in_every_precision(T: Any, say: Any) -> None:
    nan, inf = float("nan"), float("inf")
    for dtype in (T.bfloat16, T.float16, T.float32):
        x = T.tensor([2.0, nan, 0.25, -1.0, nan, 5.0, -inf], dtype=dtype)
        say(x.sort(), x.sort(descending=True), x.argsort(stable=True), x.topk(3)[0], x.topk(3, largest=False)[0])
        say([x.kthvalue(k)[0] for k in (1, 3, 6)], x.median(), x.nanmedian(), x.nanmedian(0), x.unique(), x.msort())
        many = (T.arange(200) % 37).to(dtype)
        many[50] = nan
        say(many.topk(3)[0], T.searchsorted(T.tensor([0.0, 1.0, 3.0], dtype=dtype), x))


@program
def transforms_of_dual_tensors(T: Any, say: Any) -> None:
    ad, func = T.autograd.forward_ad, T.func

    def cubes(z: Any) -> Any:
        return (z**3).sum()

    w = T.tensor([2.0, 2.0, 2.0], requires_grad=True)
    with ad.dual_level():
        x = ad.make_dual(T.tensor([1.0, 2.0, 3.0]), T.tensor([1.0, 0.0, 1.0]))
        say(ad.unpack_dual(func.grad(cubes)(x)))
        say(ad.unpack_dual(func.grad(cubes)(x[1:])))
        say(ad.unpack_dual(func.grad(lambda z: func.grad(cubes)(z).sum())(x)))
        say(ad.unpack_dual(func.jacrev(lambda z: z**3)(x)))
        value, pull = func.vjp(cubes, x)
        say(ad.unpack_dual(value).tangent, ad.unpack_dual(pull(T.tensor(2.0))[0]))
        moved = ad.unpack_dual(func.grad(cubes)(ad.make_dual(T.tensor([1.0, 2.0, 3.0]), w))).tangent
        say(moved.detach(), T.autograd.grad(moved.sum(), w)[0].detach())
