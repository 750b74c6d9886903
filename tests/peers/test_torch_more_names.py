"""Modules, distributions and other names that need a few lines of their own, against torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch (CPU)")

pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node:UserWarning"),
]


def images(T: Any, *shape: int) -> Any:
    size = int(np.prod(shape))
    return T.arange(float(size)).view(*shape).sin().requires_grad_()


def with_slope(T: Any, x: Any, y: Any) -> Any:
    (slope,) = T.autograd.grad((y * y).sum(), x)
    return y, slope


def lp_pool(T: Any) -> Any:
    x = images(T, 1, 2, 4, 4)
    return [repr(T.nn.LPPool2d(2, 2)), *with_slope(T, x, T.nn.LPPool2d(2, 2)(x)), T.nn.LPPool1d(2, 3, stride=1)(x[0])]


def unpool(T: Any) -> Any:
    x = images(T, 1, 2, 4, 4)
    values, places = T.nn.MaxPool2d(2, return_indices=True)(x)
    return [repr(T.nn.MaxUnpool2d(2)), *with_slope(T, x, T.nn.MaxUnpool2d(2)(values, places))]


def unpool_sequences(T: Any) -> Any:
    x = images(T, 1, 2, 6)
    values, places = T.nn.MaxPool1d(2, return_indices=True)(x)
    return [repr(T.nn.MaxUnpool1d(2)), *with_slope(T, x, T.nn.MaxUnpool1d(2)(values, places))]


def shuffle_channels(T: Any) -> Any:
    return [repr(T.nn.ChannelShuffle(2)), T.nn.ChannelShuffle(2)(images(T, 1, 4, 2, 2))]


def triplets(T: Any) -> Any:
    x = images(T, 3, 4)
    given = x, x.roll(1, 0), x * 2
    again = x, x.roll(1, 0), x * 2
    near = T.nn.TripletMarginWithDistanceLoss(margin=2.0)
    other = T.nn.TripletMarginWithDistanceLoss(distance_function=lambda a, b: (a - b).abs().sum(-1), swap=True)
    return [repr(near), *with_slope(T, x, near(*given)), *with_slope(T, x, other(*again))]


def normed_volumes(T: Any) -> Any:
    x = images(T, 1, 2, 2, 2, 4)
    return [repr(T.nn.InstanceNorm3d(2)), *with_slope(T, x, T.nn.InstanceNorm3d(2)(x).exp())]


def initial_values(T: Any) -> Any:
    sparse = T.nn.init.sparse_(T.empty(10, 3), 0.35)
    return [T.nn.init.dirac_(T.empty(4, 3, 3)), T.nn.init.dirac_(T.empty(4, 2, 3, 2), 2), (sparse == 0).sum(0)]


def chosen_numbers(T: Any) -> Any:
    return sorted(T.utils.data.SubsetRandomSampler([3, 5, 7]))


def memory(T: Any) -> Any:
    x = T.ones(3, 2)
    place = x.untyped_storage().data_ptr()
    same = x[1].untyped_storage().data_ptr() == place, x.clone().untyped_storage().data_ptr() == place
    return [*same, x[1].untyped_storage().nbytes(), x[1].storage_offset(), x.is_cpu, T.tensor(2.0).is_nonzero()]


def linearized(T: Any) -> Any:
    value, push = T.func.linearize(lambda a, b: a.sin() * b, T.ones(2), T.ones(2) * 3)
    return [value, push(T.ones(2), T.ones(2) * 2), push(T.ones(2), T.zeros(2))]


def stacked_modules(T: Any) -> Any:
    layers = [T.nn.BatchNorm1d(2) for _ in range(3)]
    parameters, buffers = T.func.stack_module_state(layers)
    return [parameters, buffers, parameters["weight"].requires_grad, parameters["weight"].is_leaf]


def laplace(T: Any) -> Any:
    loc, scale = T.tensor([0.0, 1.0], requires_grad=True), T.tensor([1.0, 2.0], requires_grad=True)
    made, value = T.distributions.Laplace(loc, scale), T.tensor([0.5, -1.0])
    slopes = T.autograd.grad(made.log_prob(value).sum(), (loc, scale))
    return [
        repr(made), made.mean, made.mode, made.stddev, made.variance, made.log_prob(value), made.cdf(value),
        made.icdf(T.tensor([0.2, 0.7])), made.entropy(), list(made.rsample((3,)).shape), *slopes,
    ]  # fmt: skip


def independent(T: Any) -> Any:
    made = T.distributions.Independent(T.distributions.Normal(T.zeros(2, 3), T.ones(2, 3)), 1)
    shapes = list(made.batch_shape), list(made.event_shape), list(made.sample((4,)).shape)
    return [repr(made), *shapes, made.log_prob(T.ones(2, 3)), made.entropy(), made.mean, made.variance]


def shares(T: Any) -> Any:
    D = T.distributions
    a = T.tensor([[1.5, 2.0, 0.5], [0.3, 0.2, 0.9]], requires_grad=True)
    one, pair = D.Dirichlet(a), D.Beta(a[0, :2], T.tensor([3.0, 0.7]))
    value, part = T.tensor([0.2, 0.5, 0.3]), T.tensor([0.3, 0.9])
    divergences = D.kl_divergence(one, D.Dirichlet(a.flip(0))), D.kl_divergence(pair, D.Beta(2.0, part))
    total = one.log_prob(value).sum() + one.entropy().sum() + pair.log_prob(part).sum() + pair.entropy().sum()
    total = total + sum(d.sum() for d in divergences)
    return [
        repr(one), repr(pair), one.mean, one.mode, one.variance, one.stddev, one.log_prob(value), one.entropy(),
        pair.mean, pair.mode, pair.variance, pair.log_prob(part), pair.entropy(), pair.concentration0, *divergences,
        list(one.sample((4,)).shape), list(pair.sample((4,)).shape), *T.autograd.grad(total, a),
        repr(D.Beta(1.0, 2.0).log_prob(T.tensor(0.25))),
    ]  # fmt: skip


def normal_vectors(T: Any) -> Any:
    D, found = T.distributions, []
    loc = T.tensor([[0.5, -1.0, 0.2], [1.0, 0.0, 2.0]], dtype=T.float64, requires_grad=True)
    root = T.tensor([[1.0, 0.0, 0.0], [0.5, 2.0, 0.0], [-0.3, 0.1, 0.7]], dtype=T.float64, requires_grad=True)
    value = T.tensor([0.1, 0.2, 0.3], dtype=T.float64)
    for given in ({"scale_tril": root}, {"covariance_matrix": root @ root.T}, {"precision_matrix": root @ root.T}):
        made = D.MultivariateNormal(loc, **given)
        other = D.MultivariateNormal(loc[0], scale_tril=T.stack([root, 2 * root]))
        divergence = D.kl_divergence(made, other)
        total = made.log_prob(value).sum() + made.entropy().sum() + divergence.sum() + made.variance.sum()
        found += [
            repr(made), made.log_prob(value), made.entropy(), made.mean, made.mode, made.variance, made.scale_tril,
            made.covariance_matrix, made.precision_matrix, divergence, list(made.rsample((4,)).shape),
            *T.autograd.grad(total, (loc, root)), other.log_prob(value),
        ]  # fmt: skip
    return found


def parts_of_distributions(T: Any) -> Any:
    D = T.distributions
    given = T.tensor([0.2, 0.8])
    made = [D.Categorical(logits=given), D.Categorical(given), D.Bernoulli(logits=given), D.Bernoulli(given)]
    before = [repr(each) for each in made]
    return [before, [[each.probs, each.logits] for each in made], [repr(each) for each in made]]


def values_that_there_are_not(T: Any) -> Any:
    D, bad, found = T.distributions, T.tensor([2.5, -1.0]), []
    made = (
        D.Normal(0.0, 1.0), D.Uniform(0.0, 1.0), D.Bernoulli(0.3), D.Categorical(T.ones(3)), D.Exponential(1.0),
        D.Beta(1.0, 2.0), D.Dirichlet(T.ones(2)), D.MultivariateNormal(T.zeros(2), T.eye(2)), D.Laplace(0.0, 1.0),
        D.Normal(T.zeros(3), 1.0), D.Independent(D.Normal(T.zeros(3), 1.0), 1),
    )  # fmt: skip
    calls = [lambda each=each, v=v: each.log_prob(v) for each in made for v in (bad, bad / 0 * 0, 1.0)]
    calls += [
        lambda: D.Normal(0.0, -1.0), lambda: D.Uniform(2.0, 1.0), lambda: D.Exponential(-1.0),
        lambda: D.Beta(-1.0, 2.0),
        lambda: D.Bernoulli(2.0), lambda: D.Categorical(bad), lambda: D.Categorical(T.zeros(3)),
        lambda: D.Dirichlet(bad), lambda: D.Dirichlet(T.tensor(1.0)), lambda: D.Normal(float("nan"), 1.0),
        lambda: D.MultivariateNormal(bad, -T.eye(2)), lambda: D.MultivariateNormal(bad, scale_tril=T.ones(2, 2)),
        lambda: D.MultivariateNormal(bad), lambda: D.MultivariateNormal(T.tensor(1.0), T.eye(2)),
        lambda: D.Categorical(T.tensor(1.0)), lambda: D.Bernoulli(), lambda: D.Bernoulli(2.0, validate_args=False).mean,
        lambda: D.Uniform(0.0, 1.0, validate_args=False).log_prob(bad),
    ]  # fmt: skip
    for call in calls:
        try:
            found.append(str(call()))
        except Exception as error:
            found.append(f"{type(error).__name__} {error}")
    return found


def averages(T: Any) -> Any:
    layer = T.nn.Linear(2, 1)
    utils = T.optim.swa_utils
    models = [
        utils.AveragedModel(layer), utils.AveragedModel(layer, avg_fn=utils.get_ema_avg_fn(0.9)),
        utils.AveragedModel(layer, multi_avg_fn=utils.get_ema_multi_avg_fn(0.9)),
    ]  # fmt: skip
    for step in range(3):
        with T.no_grad():
            layer.weight.copy_(T.tensor([[1.0, 2.0]]) * step**2)
            layer.bias.fill_(step)
        for model in models:
            model.update_parameters(layer)
    return [m.state_dict() for m in models]


def statistics(T: Any) -> Any:
    model = T.nn.Sequential(T.nn.BatchNorm1d(2))
    model.eval()
    batches = [images(T, 3, 2).detach(), images(T, 4, 2).detach() * 2]
    T.optim.swa_utils.update_bn([(b, None) for b in batches], model)
    return [model.state_dict(), model[0].momentum, model.training]


def rates(T: Any) -> Any:
    found = []
    for strategy in ("cos", "linear"):
        for epochs in (0, 3):
            optimizer = T.optim.SGD([T.ones(1, requires_grad=True)], lr=1.0)
            schedule = T.optim.swa_utils.SWALR(optimizer, swa_lr=0.05, anneal_epochs=epochs, anneal_strategy=strategy)
            for _ in range(5):
                optimizer.step()
                schedule.step()
                found.append(optimizer.param_groups[0]["lr"])
    return found


def names_of_nodes(T: Any) -> Any:
    x = images(T, 2, 3)
    made = x * 1, T.nansum(x), T.nansum(x, 0), T.nn.PReLU()(x), T.nn.functional.prelu(x, T.ones(3))
    mean = T.distributions.Normal(x, x.detach().abs() + 1).mean
    return [*[type(y.grad_fn).__name__ for y in made], mean.grad_fn is None]


def names_of_composed_nodes(T: Any) -> Any:
    found = []

    def leaf(*shape: int) -> Any:
        return images(T, *shape).detach().requires_grad_()

    for x, y in (
        ((3,), (3, 2)),
        ((3,), (5, 3, 2)),
        ((5, 2, 3), (3,)),
        ((4, 1, 2, 3), (5, 3, 2)),
        ((5, 2, 3), (5, 3, 2)),
    ):
        found.append(leaf(*x) @ leaf(*y))
    for text, *shapes in (
        ("ij,jk", (2, 3), (3, 4)), ("i,i", (3,), (3,)), ("i,j->ji", (3,), (4,)), ("ij,ij->ij", (2, 3), (2, 3)),
        ("bij,bkj->bik", (2, 3, 4), (2, 5, 4)), ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)),
    ):  # fmt: skip
        found.append(T.einsum(text, *[leaf(*s) for s in shapes]))
    for shape in ((4,), (3, 4), (2, 3, 4), (2, 2, 3, 4)):
        found += [T.nn.functional.linear(leaf(*shape), leaf(5, 4), *rest) for rest in ((), (leaf(5),))]
    x = leaf(3, 4)
    found += [*T.var_mean(x), *T.std_mean(x, 1), *T.aminmax(x), *[T.rot90(x, k) for k in range(4)]]
    for key in (slice(None), Ellipsis, (slice(None), slice(0, None)), slice(0, 3), None, 0, slice(None, None, 2)):
        for value in (0, T.tensor(2.0), leaf(4), leaf(3, 4)[:1]):
            y = x * 1
            y[key] = value
            found.append(y)
    for single, first in ((False, True), (False, False), (True, True)):
        module = T.nn.MultiheadAttention(8, 2, batch_first=first)
        q = leaf(5, 8) if single else leaf(2, 5, 8)
        for more in ({}, dict(need_weights=False), dict(average_attn_weights=False)):
            out, weights = module(q, q, q, **more)
            found += [out, *([] if weights is None else [weights])]
    for kind in (T.nn.RNNCell, T.nn.GRUCell):
        found.append(kind(3, 4)(leaf(2, 3)))
    for kind in (T.nn.RNN, T.nn.GRU):
        found += [kind(3, 4, batch_first=True)(leaf(2, 5, 3))[0], T.nn.Dropout(0.5)(x), T.nn.AlphaDropout(0.5)(x)]
    strides = [[t.stride(), t._is_view()] for t in (T.rot90(leaf(3, 4, 2), k, (0, 2)) for k in range(4))]
    return [[type(y.grad_fn).__name__ for y in found], strides]


def counts_and_waits(T: Any) -> Any:
    D, found = T.distributions, []
    p, q = T.tensor([0.5, 2.0, 3.0], requires_grad=True), T.tensor([1.5, 1.0, 0.7], requires_grad=True)
    times, counts = T.tensor([0.3, 1.2, 2.5]), T.tensor([0.0, 2.0, 5.0])
    for made, value in (
        (D.Gamma(p, q), times), (D.StudentT(p + 3, q, p), times), (D.LogNormal(p, q), times), (D.Poisson(p), counts),
        (D.Binomial(5, p / 4), counts), (D.Binomial(T.tensor([5.0, 6.0, 7.0]), logits=p), counts),
        (D.StudentT(T.tensor([0.5, 1.5, 2.5])), times),
    ):  # fmt: skip
        weights = made.log_prob(value)
        slopes = (
            T.autograd.grad(weights.sum() + made.mean.sum(), (p, q), allow_unused=True) if weights.requires_grad else []
        )
        found += [
            repr(made),
            made.mean,
            made.mode,
            made.variance,
            made.stddev,
            weights,
            list(made.sample((4,)).shape),
            *slopes,
        ]
    found += [
        D.Gamma(p, q).entropy(),
        D.StudentT(p, q).entropy(),
        D.LogNormal(p, q).entropy(),
        D.Binomial(5, p / 4).entropy(),
    ]
    found += [
        D.LogNormal(p, q).cdf(times),
        D.LogNormal(p, q).icdf(times / 3),
        list(D.LogNormal(p, q).rsample((2,)).shape),
    ]
    for call in (
        lambda: D.Gamma(-p, q), lambda: D.Poisson(-p), lambda: D.LogNormal(p, -q),
        lambda: D.Binomial(-1, p / 4), lambda: D.Binomial(5, p), lambda: D.Gamma(p, q).log_prob(-times),
        lambda: D.Poisson(p).log_prob(times), lambda: D.LogNormal(p, q).log_prob(-times),
        lambda: D.Binomial(4, p / 4).log_prob(counts), lambda: D.Binomial(4).mean,
    ):  # fmt: skip
        try:
            found.append(str(call()))
        except ValueError as error:
            found.append(str(error))
    return found


def wide_and_one_sided(T: Any) -> Any:
    D, found = T.distributions, []
    p, q = T.tensor([0.5, 2.0, 3.0], requires_grad=True), T.tensor([1.5, 1.0, 0.7], requires_grad=True)
    values, shares = T.tensor([0.3, 1.2, 2.5]), T.tensor([0.6, 0.2, 0.9])
    for made in (D.Cauchy(p, q), D.Gumbel(p, q), D.HalfNormal(q), D.Chi2(p), D.Cauchy(0.0, 2.0), D.HalfNormal(3.0)):
        found += [repr(made), made.mean, made.mode, made.variance, made.entropy(), made.log_prob(values)]
        found += [made.sample((2,)).shape, made.rsample().shape, made.has_rsample]
        if not isinstance(made, D.Chi2):
            found += [made.icdf(shares)] + ([] if isinstance(made, D.Gumbel) else [made.cdf(values)])
        if made.log_prob(values).requires_grad:
            found += T.autograd.grad(made.log_prob(values).sum(), (p, q), allow_unused=True)
    return found


def modules_put_at_paths(T: Any) -> Any:
    model = T.nn.Sequential(T.nn.Linear(2, 2), T.nn.Sequential(T.nn.ReLU(), T.nn.Linear(2, 1)))
    model.set_submodule("1.0", T.nn.Tanh())
    model.set_submodule("1.7", T.nn.Tanh())
    found = [repr(model)]
    for path, module, strict in (
        ("5.0", T.nn.Tanh(), False), ("", T.nn.Tanh(), False), ("1.8", T.nn.Tanh(), True), ("1.0", 3, False),
        ("0.weight", T.nn.Tanh(), False),
    ):  # fmt: skip
        try:
            model.set_submodule(path, module, strict=strict)
        except (AttributeError, ValueError) as error:
            found.append(str(error))
    return found


def hooks_on_states(T: Any) -> Any:
    log: list[Any] = []
    model = T.nn.Sequential(T.nn.Linear(2, 2), T.nn.Sequential(T.nn.BatchNorm1d(2), T.nn.Linear(2, 1)))
    model.register_state_dict_pre_hook(lambda module, *more: log.append(["pre", *more]))
    model[1].register_state_dict_post_hook(
        lambda module, state, prefix, metadata: log.append(["post", sorted(state), prefix, dict(metadata)])
    )
    model[1]._register_state_dict_hook(lambda module, state, prefix, metadata: log.append(["old", prefix]))
    model[1].register_load_state_dict_pre_hook(
        lambda module, state, prefix, metadata, *more: log.append([sorted(state), prefix, dict(metadata), repr(more)])
    )
    model[1]._register_load_state_dict_pre_hook(lambda state, prefix, *more: log.append([prefix, len(more)]))
    handle = model.register_load_state_dict_post_hook(lambda module, keys: log.append(repr(keys)))

    def load(**options: Any) -> None:
        try:
            log.append(repr(model.load_state_dict(state, **options)))
        except RuntimeError as error:
            log.append(str(error))

    state = model.state_dict()
    log.append({path: dict(about) for path, about in state._metadata.items()})
    load()
    state["0.weight"] = state["0.weight"] + 1
    load(assign=True)
    log += [model[0].weight is state["0.weight"], type(model[0].weight).__name__, model[0].weight.requires_grad]
    state = model.state_dict()
    del state["0.weight"]
    state.update({"x": T.ones(1), "1.y.z": T.ones(1), "1.1.bias": T.ones(3), "0.bias": 2})
    load()
    handle.remove()
    state.pop("0.bias"), state.pop("1.1.bias")
    load(strict=False)
    model.register_load_state_dict_post_hook(lambda module, keys: keys.missing_keys.clear())
    load()
    return log


def single_steps(T: Any) -> Any:
    x, h, c = images(T, 2, 3), images(T, 2, 2), images(T, 2, 2) * 2
    found = []
    for name, gates in (("lstm_cell", 4), ("gru_cell", 3), ("rnn_tanh_cell", 1), ("rnn_relu_cell", 1)):
        w, v, b = images(T, gates * 2, 3), images(T, gates * 2, 2), images(T, gates * 2)
        for biases in ((), (b, b * 2)):
            made = getattr(T, name)(x, (h, c) if gates == 4 else h, w, v, *biases)
            outs = made if isinstance(made, tuple) else (made,)
            found += [*outs, *T.autograd.grad(sum((out**2).sum() for out in outs), (x, h, w, v))]
    return found


def logarithms_of_complex_numbers(T: Any) -> Any:
    z, found = T.tensor([1 + 2j, -0.5 + 0.1j], requires_grad=True), []
    for y in (z.log10(), z.log2(), z.sigmoid(), T.logsumexp(z, 0, keepdim=True)):
        found += [T.view_as_real(y), T.view_as_real(T.autograd.grad(y.abs().sum(), z)[0])]
    return found


def states_of_modules(T: Any) -> Any:
    class Counted(T.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.kept, self.passing = T.nn.Buffer(T.ones(2)), T.nn.Buffer(T.zeros(1), persistent=False)
            self.calls = 3

        def get_extra_state(self) -> Any:
            return {"calls": self.calls}

        def set_extra_state(self, state: Any) -> None:
            self.calls = state["calls"] + 1

    first, second = T.nn.Sequential(Counted()), T.nn.Sequential(Counted())
    first[0].calls = 7
    keys = repr(second.load_state_dict(first.state_dict()))
    first[0].kept = T.nn.Buffer(T.zeros(3), persistent=False)
    return [
        keys, second[0].calls, list(second.state_dict()), [name for name, _ in second.named_buffers()],
        list(first.state_dict()), isinstance(second[0].kept, T.nn.Buffer), isinstance(T.ones(1), T.nn.Buffer),
        second.to_empty(device="cpu")[0].kept.shape[0], T.nn.utils.get_total_norm([T.ones(2), T.ones(3)]),
        T.nn.utils.get_total_norm([T.ones(2), -2 * T.ones(3)], float("inf")), T.nn.utils.get_total_norm([]),
    ]  # fmt: skip


def formats_of_memory(T: Any) -> Any:
    x, last = images(T, 1, 2, 3, 4), T.channels_last
    T.set_float32_matmul_precision("high")
    return [
        repr(last), repr(T.channels_last_3d), x.to(memory_format=last), x.contiguous(memory_format=last),
        x.clone(memory_format=last), x.is_contiguous(memory_format=last), x.double(memory_format=T.preserve_format),
        x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2).is_contiguous(memory_format=last),
        list(T.nn.Conv2d(2, 2, 1).to(memory_format=last).weight.shape), T.get_float32_matmul_precision(),
    ]  # fmt: skip


def sums_without_nan(T: Any) -> Any:
    x = T.tensor([[1.0, float("nan")], [2.0, 3.0]], requires_grad=True)
    return [T.nansum(x), T.nansum(x, 0, dtype=T.float64), T.nansum(T.tensor([1, 2])), *with_slope(T, x, x.nansum(1))]


def windows_of_volumes(T: Any) -> Any:
    x, found = images(T, 1, 2, 3, 4, 5), []
    for size in (1, 2, (2, 3, 1), (None, 2, 2)):
        for kind in ("Avg", "Max"):
            layer = getattr(T.nn, f"Adaptive{kind}Pool3d")(size)
            found += [repr(layer), layer(x).grad_fn.name(), *with_slope(T, x, layer(x)), layer(x[0])]
        found += T.nn.functional.adaptive_max_pool3d(x, size, return_indices=True)
    return found


def bags(T: Any) -> Any:
    rows, line, starts = T.tensor([[0, 1, 2], [3, 4, 4]]), T.tensor([0, 1, 2, 3, 4, 4]), T.tensor([0, 2, 2])
    table, factors = images(T, 5, 4), images(T, 6)
    bag, found = T.nn.functional.embedding_bag, []
    for mode in ("sum", "mean", "max"):
        made = [
            bag(rows, table, mode=mode), bag(line, table, starts, mode=mode), bag(rows[:0], table, mode=mode),
            bag(line, table, T.tensor([0, 4, 6]), mode=mode, include_last_offset=True),
            bag(rows, table, mode=mode, padding_idx=4),
            bag(line, table, starts, mode=mode, padding_idx=-1), bag(line[:0], table, starts[:1], mode=mode),
        ]  # fmt: skip
        found += [step for y in made for step in with_slope(T, table, y)]
    made = bag(line, table, starts, mode="sum", per_sample_weights=factors)
    found += [made, *T.autograd.grad((made * made).sum(), (table, factors))]
    short = table.detach().clone()
    found += [bag(rows, short, max_norm=1.0), short]
    layer = T.nn.EmbeddingBag.from_pretrained(table.detach(), mode="sum", padding_idx=1)
    found += [repr(layer), repr(T.nn.EmbeddingBag(5, 4, max_norm=2.0)), layer(line, starts), layer.weight.requires_grad]
    return [*found, layer(rows, per_sample_weights=T.ones(2, 3)), *layer.state_dict()]


CALLS = (
    names_of_nodes, names_of_composed_nodes, sums_without_nan,
    lp_pool, unpool, unpool_sequences, shuffle_channels, triplets, normed_volumes, initial_values, chosen_numbers,
    memory, linearized, stacked_modules, laplace, independent, averages,
    shares, normal_vectors, parts_of_distributions, values_that_there_are_not, statistics, rates,
    modules_put_at_paths, hooks_on_states,
    counts_and_waits, wide_and_one_sided, single_steps, logarithms_of_complex_numbers, states_of_modules,
    formats_of_memory, bags, windows_of_volumes,
)  # fmt: skip


def plain(value: Any) -> Any:
    """Return numbers in flat lists, and all else as it is."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value.detach().tolist() if hasattr(value, "detach") else value


def assert_same(found: Any, expected: Any) -> None:
    if isinstance(expected, dict):
        assert list(found) == list(expected)
        found, expected = list(found.values()), list(expected.values())
    if isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=2e-5, abs=2e-6, nan_ok=True)
    else:
        assert found == expected


@pytest.mark.parametrize("call", CALLS, ids=[call.__name__ for call in CALLS])
def test_same(call: Callable[[Any], Any]) -> None:
    assert_same(plain(call(tg)), plain(call(torch)))


@pytest.mark.parametrize("concentration", [0.5, 1.0, 10.0, 1e4])
def test_gradients_of_gamma_variates(concentration: float) -> None:
    shape = tg.full((500,), concentration, dtype=tg.float64, requires_grad=True)
    drawn = tg.distributions.Gamma(shape, tg.ones(500, dtype=tg.float64)).rsample()
    (found,) = tg.autograd.grad(drawn.sum(), shape)
    expected = torch._standard_gamma_grad(torch.tensor(shape.detach().numpy()), torch.tensor(drawn.detach().numpy()))
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=2e-3)  # torch's is an approximation
