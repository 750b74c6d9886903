"""Modules with torch's weights give torch's results and gradients; schedules and state too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg

# ruff: noqa: E501

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch (CPU)")

MODULES: list[tuple[str, Callable[[Any], Any], tuple[int, ...]]] = [
    ("linear", lambda nn: nn.Linear(4, 3), (5, 4)),
    ("no bias", lambda nn: nn.Linear(4, 3, bias=False), (5, 4)),
    ("mlp", lambda nn: nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2), nn.LogSoftmax(1)), (5, 4)),
    ("convolutions", lambda nn: nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 3, 3, stride=2), nn.Flatten(), nn.Linear(3, 2)), (3, 2, 8, 8)),
    ("convolution along one axis", lambda nn: nn.Sequential(nn.Conv1d(2, 4, 3), nn.BatchNorm1d(4), nn.AvgPool1d(2), nn.Tanh()), (3, 2, 9)),
    ("groups", lambda nn: nn.Sequential(nn.Conv2d(4, 4, 3, groups=2), nn.GroupNorm(2, 4), nn.SiLU(), nn.AdaptiveAvgPool2d(1)), (2, 4, 6, 6)),
    ("transposed convolutions", lambda nn: nn.Sequential(nn.ConvTranspose2d(4, 6, (3, 2), stride=2, padding=1, output_padding=1, groups=2), nn.Tanh(), nn.ConvTranspose2d(6, 1, 3, dilation=2, bias=False)), (2, 4, 3, 4)),
    ("transposed convolution along one axis", lambda nn: nn.ConvTranspose1d(3, 2, 4, stride=3), (3, 5)),
    ("instance norms", lambda nn: nn.Sequential(nn.InstanceNorm2d(2, affine=True, track_running_stats=True), nn.ReflectionPad2d(1), nn.Upsample(scale_factor=2), nn.ZeroPad2d((1, 0, 2, 1)), nn.AdaptiveAvgPool2d((2, 3))), (3, 2, 4, 4)),
    ("sequences", lambda nn: nn.Sequential(nn.InstanceNorm1d(2), nn.ReplicationPad1d(2), nn.CircularPad1d(1), nn.ConstantPad1d(1, 2.0), nn.AdaptiveAvgPool1d(4), nn.RMSNorm(4)), (3, 2, 5)),
    ("upsampling", lambda nn: nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), nn.UpsamplingBilinear2d(scale_factor=2), nn.UpsamplingNearest2d((3, 3)), nn.PixelShuffle(2)), (2, 4, 3, 2)),
    ("prelu", lambda nn: nn.Sequential(nn.Linear(4, 3), nn.PReLU(), nn.Softplus(), nn.ELU(), nn.Softmax(dim=1)), (5, 4)),
    ("activations in place", lambda nn: nn.Sequential(nn.Linear(4, 3), nn.LeakyReLU(0.1, True), nn.Linear(3, 3), nn.ELU(0.5, True), nn.Linear(3, 3), nn.SiLU(True)), (5, 4)),
    ("greatest of windows", lambda nn: nn.Sequential(nn.PixelUnshuffle(2), nn.MaxPool2d(2, ceil_mode=True), nn.Conv2d(8, 2, 1), nn.AdaptiveMaxPool2d((2, None)), nn.Flatten(2), nn.AdaptiveMaxPool1d(3)), (2, 2, 6, 10)),
]  # fmt: skip


def pair(make: Callable[[Any], Any]) -> tuple[Any, Any]:
    """Return a module of each library, with torch's weights."""
    expected, found = make(torch.nn).double(), make(tg.nn).double()
    found.load_state_dict({k: tg.from_numpy(v.detach().numpy()) for k, v in expected.state_dict().items()})
    return found, expected


@pytest.mark.parametrize(("make", "shape"), [m[1:] for m in MODULES], ids=[m[0] for m in MODULES])
def test_module(make: Callable[[Any], Any], shape: tuple[int, ...], rng: np.random.Generator) -> None:
    found, expected = pair(make)
    assert [n for n, _ in found.named_parameters()] == [n for n, _ in expected.named_parameters()]
    x = rng.normal(size=shape)
    results = []
    for T, module in ((tg, found), (torch, expected)):
        values = T.tensor(x, requires_grad=True)
        out = module(values)
        out.square().sum().backward()
        second = module.eval()(values)
        results.append(
            [out, values.grad, *[p.grad for p in module.parameters()], second, *module.state_dict().values()]
        )
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-8, atol=1e-10)


RECURRENT: list[tuple[str, Callable[[Any], Any], tuple[int, ...]]] = [
    ("rnn", lambda nn: nn.RNN(3, 4), (5, 2, 3)),
    ("rnn with relu", lambda nn: nn.RNN(3, 4, 2, "relu", bias=False), (5, 2, 3)),
    ("lstm", lambda nn: nn.LSTM(input_size=3, hidden_size=4, num_layers=2, bidirectional=True), (5, 2, 3)),
    ("lstm with the batch in front", lambda nn: nn.LSTM(3, 4, batch_first=True), (2, 5, 3)),
    ("gru", lambda nn: nn.GRU(3, 4, 2, bidirectional=True, batch_first=True), (2, 5, 3)),
    ("gru without a batch", lambda nn: nn.GRU(3, 4), (5, 3)),
    ("rnn cell", lambda nn: nn.RNNCell(3, 4), (2, 3)),
    ("lstm cell", lambda nn: nn.LSTMCell(3, 4, bias=False), (2, 3)),
    ("gru cell", lambda nn: nn.GRUCell(3, 4), (3,)),
]  # fmt: skip


def flat(value: Any) -> list[Any]:
    """Return the tensors in nested tuples."""
    return [t for v in value for t in flat(v)] if isinstance(value, tuple) else [value]


@pytest.mark.parametrize(("make", "shape"), [m[1:] for m in RECURRENT], ids=[m[0] for m in RECURRENT])
def test_recurrent(make: Callable[[Any], Any], shape: tuple[int, ...], rng: np.random.Generator) -> None:
    found, expected = pair(make)
    assert [n for n, _ in found.named_parameters()] == [n for n, _ in expected.named_parameters()]
    x = rng.normal(size=shape)
    results = []
    for T, module in ((tg, found), (torch, expected)):
        values = T.tensor(x, requires_grad=True)
        first = module(values)
        states = first[1] if isinstance(first, tuple) and "Cell" not in type(module).__name__ else first
        second = module(values, tuple(s * 0.5 for s in states) if isinstance(states, tuple) else states * 0.5)
        loss = sum((t**2).sum() for t in flat((first, second)))
        loss.backward()
        results.append([*flat((first, second)), values.grad, *[p.grad for p in module.parameters()]])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-8, atol=1e-10)
    assert repr(found) == repr(expected)
    with pytest.raises(RuntimeError):
        found(tg.zeros(*shape[:-1], 7, dtype=tg.float64))


def test_embedding(rng: np.random.Generator) -> None:
    found, expected = pair(lambda nn: nn.Embedding(5, 3, padding_idx=1))
    for T, module in ((tg, found), (torch, expected)):
        (module(T.tensor([[0, 1], [4, 0]])) ** 2).sum().backward()
    np.testing.assert_allclose(found.weight.grad.numpy(), expected.weight.grad.numpy())


def test_schedules() -> None:
    rates = []
    for T in (tg, torch):
        lines = []
        for make in (
            lambda s, o: s.StepLR(o, 3, 0.5), lambda s, o: s.ExponentialLR(o, 0.9), lambda s, o: s.MultiStepLR(o, [2, 5]),
            lambda s, o: s.CosineAnnealingLR(o, 10), lambda s, o: s.LambdaLR(o, lambda k: 1 / (1 + k)),
        ):  # fmt: skip
            optimizer = T.optim.SGD([T.ones(1, requires_grad=True)], lr=0.1)
            schedule = make(T.optim.lr_scheduler, optimizer)
            for _ in range(8):
                optimizer.step()
                schedule.step()
                lines.append(schedule.get_last_lr()[0])
        rates.append(lines)
    np.testing.assert_allclose(*rates, rtol=1e-12)


def test_losses_as_modules(rng: np.random.Generator) -> None:
    x, y = rng.uniform(0.1, 0.9, (4, 3)), rng.uniform(0.1, 0.9, (4, 3))
    for name, options in (
        ("MSELoss", {}), ("L1Loss", {"reduction": "sum"}), ("SmoothL1Loss", {"beta": 0.3}), ("HuberLoss", {}),
        ("BCELoss", {}), ("BCEWithLogitsLoss", {"reduction": "none"}), ("CrossEntropyLoss", {"label_smoothing": 0.1}),
        ("KLDivLoss", {"reduction": "batchmean"}),
    ):  # fmt: skip
        a = getattr(tg.nn, name)(**options)(tg.tensor(x), tg.tensor(y))
        b = getattr(torch.nn, name)(**options)(torch.tensor(x), torch.tensor(y))
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9)
    weight = rng.uniform(1, 2, 3)
    classes = np.array([0, 2, 1, 1])
    a = tg.nn.CrossEntropyLoss(weight=tg.tensor(weight))(tg.tensor(x), tg.tensor(classes))
    b = torch.nn.CrossEntropyLoss(weight=torch.tensor(weight))(torch.tensor(x), torch.tensor(classes))
    np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9)


def test_clipping_of_gradients(rng: np.random.Generator) -> None:
    g = rng.normal(size=5)
    norms = []
    for T in (tg, torch):
        p = T.tensor(np.zeros(5), requires_grad=True)
        p.grad = T.tensor(g)
        total = T.nn.utils.clip_grad_norm_([p], 0.5)
        norms.append([float(total), *p.grad.tolist()])
    np.testing.assert_allclose(*norms, rtol=1e-6)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
def test_multihead_attention(masked: bool, batch_first: bool, rng: np.random.Generator) -> None:
    found, expected = pair(lambda nn: nn.MultiheadAttention(6, 2, batch_first=batch_first))
    assert [n for n, _ in found.named_parameters()] == [n for n, _ in expected.named_parameters()]
    queries, keys = ((2, 3, 6), (2, 5, 6)) if batch_first else ((3, 2, 6), (5, 2, 6))
    arrays = [rng.normal(size=s) for s in (queries, keys, keys)]
    hidden = np.array([[False] * 5, [False, False, True, True, True]])
    ahead = np.triu(np.ones((3, 5), bool), 2)
    results = []
    for T, module in ((tg, found), (torch, expected)):
        q, k, v = (T.tensor(a, requires_grad=True) for a in arrays)
        masks = dict(key_padding_mask=T.tensor(hidden), attn_mask=T.tensor(ahead)) if masked else {}
        out, weights = module(q, k, v, **masks)
        (out.square().sum() + weights.square().sum()).backward()
        each = module(q, k, v, average_attn_weights=False, **masks)[1]
        alone = module(q, k, v, need_weights=False, **masks)
        assert alone[1] is None
        results.append([out, weights, each, alone[0], q.grad, k.grad, v.grad, *[p.grad for p in module.parameters()]])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-8, atol=1e-10)


def test_losses_of_pairs_as_modules(rng: np.random.Generator) -> None:
    arrays = [rng.uniform(0.2, 0.9, (4, 3)) for _ in range(3)]
    signs = np.array([1.0, -1.0, 1.0, -1.0])
    for name, options, last in (
        ("TripletMarginLoss", {"margin": 2.0}, None), ("GaussianNLLLoss", {"full": True}, None),
        ("CosineEmbeddingLoss", {}, signs), ("MarginRankingLoss", {"margin": 0.1}, signs[:, None]),
        ("PoissonNLLLoss", {"log_input": False}, "two"),
    ):  # fmt: skip
        values = []
        for T in (tg, torch):
            given = [T.tensor(a) for a in arrays]
            given = given[:2] if last is not None else given
            given += [T.tensor(last)] if isinstance(last, np.ndarray) else []
            values.append(getattr(T.nn, name)(**options)(*given).numpy())
        np.testing.assert_allclose(*values, rtol=1e-9)
