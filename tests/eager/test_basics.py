"""Eager tensors: values, dtypes, printing, and first gradients, checked by hand."""

from __future__ import annotations

import operator
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.eager.torch_like import torch


def test_gradient_of_a_product_of_sums() -> None:
    x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
    w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    z = x @ w
    assert str(z) == "tensor([14., 32.], grad_fn=<MvBackward0>)"
    z.backward(torch.tensor([1.0, 10.0]))
    assert w.grad.tolist() == [41.0, 52.0, 63.0]
    assert x.grad.tolist() == [[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]]


def test_grad_is_none_then_accumulates_and_is_reset() -> None:
    x = torch.ones(2, requires_grad=True)
    assert x.grad is None
    for times in (1, 2):
        (x * 3).sum().backward()
        assert x.grad.tolist() == [3.0 * times] * 2
    x.grad.zero_()
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    x.grad = None
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_second_backward_says_how_to_keep_the_graph_and_where_it_was_made() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="Specify retain_graph=True") as caught:
        y.backward()
    assert "y = (x * x).sum()" in str(caught.value)
    assert "MulBackward0" in str(caught.value)


def test_retain_graph_accumulates() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x * x
    for times in (1, 2, 3):
        y.backward(torch.tensor([1.0, 1.0]), retain_graph=True)
        assert x.grad.tolist() == [2.0 * times, 4.0 * times]


def test_backward_of_a_vector_without_gradient_is_an_error() -> None:
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        (x * 2).backward()


def test_backward_without_anything_that_requires_grad_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="element 0 of tensors does not require grad and does not have a grad_fn"):
        torch.ones(3).sum().backward()


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (lambda: torch.tensor(3.0), "tensor(3.)"),
        (lambda: torch.tensor([1.5, 2.25]), "tensor([1.5000, 2.2500])"),
        (lambda: torch.tensor([1e-5, 1.0]), "tensor([1.0000e-05, 1.0000e+00])"),
        (lambda: torch.tensor([True, False]), "tensor([ True, False])"),
        (lambda: torch.zeros(2, 0), "tensor([], size=(2, 0))"),
        (lambda: torch.tensor([1.0, 2.0], dtype=torch.float64), "tensor([1., 2.], dtype=torch.float64)"),
        (lambda: torch.tensor([float("nan"), 1.0]), "tensor([nan, 1.])"),
        (lambda: torch.tensor([1 + 2j, 3.5]), "tensor([1.0000+2.j, 3.5000+0.j])"),
        (lambda: torch.arange(4.0, requires_grad=True), "tensor([0., 1., 2., 3.], requires_grad=True)"),
        (lambda: torch.ones(2, 2) * 2, "tensor([[2., 2.],\n        [2., 2.]])"),
        (lambda: torch.range(1, 3), "tensor([1., 2., 3.])"),
        (lambda: torch.arange(3), "tensor([0, 1, 2])"),
        (lambda: torch.tensor([1], dtype=torch.int32), "tensor([1], dtype=torch.int32)"),
    ],
)
def test_text(made, text) -> None:
    assert str(made()) == text


def test_text_names_the_node() -> None:
    x = torch.ones(2, requires_grad=True)
    assert str(x + 1) == "tensor([2., 2.], grad_fn=<AddBackward0>)"
    assert f"{(x * 2).sum():.2f}" == "4.00"


@pytest.mark.parametrize(
    ("first", "second", "result"),
    [
        ("int64", "float32", "float32"), ("int32", "int64", "int64"), ("uint8", "int8", "int16"),
        ("float16", "bfloat16", "float32"), ("float64", "complex64", "complex128"), ("bool", "int8", "int8"),
    ],
)  # fmt: skip
def test_promotion_is_by_category(first: str, second: str, result: str) -> None:
    a = torch.ones(2, dtype=getattr(torch, first))
    b = torch.ones(2, dtype=getattr(torch, second))
    assert (a + b).dtype == getattr(torch, result)


def test_numbers_and_rank_0_only_raise_the_category() -> None:
    x = torch.ones(2, dtype=torch.float32)
    assert (x * 2.0).dtype == torch.float32
    assert (x * torch.tensor(2.0, dtype=torch.float64)).dtype == torch.float32
    assert (torch.arange(2) * 2.5).dtype == torch.float32
    assert (torch.arange(2) / 2).dtype == torch.float32
    assert (torch.arange(2) * torch.tensor(1.5, dtype=torch.float64)).dtype == torch.float64


def test_default_dtype() -> None:
    assert torch.tensor(1.0).dtype == torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.tensor(1.0).dtype == torch.float64
        assert torch.zeros(2).dtype == torch.float64
        assert str(torch.tensor([1.0])) == "tensor([1.])"
    finally:
        torch.set_default_dtype(torch.float32)


def test_integers_cannot_require_grad() -> None:
    with pytest.raises(RuntimeError, match="floating point and complex"):
        torch.tensor([1, 2], requires_grad=True)
    with pytest.raises(RuntimeError, match="floating point"):
        torch.arange(3).requires_grad_()


def test_broadcast_gradients_are_summed() -> None:
    x = torch.ones(2, 3, requires_grad=True)
    b = torch.ones(3, requires_grad=True)
    s = torch.tensor(2.0, requires_grad=True)
    (x * b * s).sum().backward()
    assert b.grad.tolist() == [4.0] * 3
    assert s.grad.item() == 6.0
    assert x.grad.tolist() == [[2.0] * 3] * 2


def test_no_warning_and_no_nan_from_values_that_are_not_finite() -> None:
    x = torch.tensor([0.0, 4.0], requires_grad=True)
    y = torch.where(x > 0, x.sqrt(), torch.zeros(2))
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 0.25]
    assert (1 / torch.tensor([0.0])).tolist() == [float("inf")]


def test_numpy_functions_return_tensors_that_are_recorded() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = np.mean(np.sin(x) * np.float32(2))
    assert isinstance(y, torch.Tensor)
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), np.cos([1.0, 2.0]), rtol=1e-6)


def test_numpy_shares_memory_and_refuses_what_requires_grad() -> None:
    array = np.zeros(2)
    x = torch.from_numpy(array)
    array[0] = 5.0
    assert x.tolist() == [5.0, 0.0]
    with pytest.raises(RuntimeError, match="detach"):
        torch.ones(1, requires_grad=True).numpy()


def test_saved_values_are_released() -> None:
    x = torch.ones(3, requires_grad=True)
    y = (x * 2).exp()
    node = y.grad_fn
    assert node.saved
    y.sum().backward()
    assert not node.saved


def test_what_the_documentation_calls_missing_is_missing() -> None:
    text = (Path(__file__).parents[2] / "docs" / "eager.md").read_text().split("## What is missing")[1]
    inner = {"torch": "Tensor", "nn": "functional", "optim": "lr_scheduler", "autograd": "graph"}
    for bullet in text.split("\n- ")[1:]:
        owner, *names = re.findall(r"`([\w.]+)`", bullet)
        place = torch if owner == "torch" else getattr(torch, owner)
        for name in names:
            for start in [place, getattr(place, inner[owner])] if owner in inner else [place]:
                with pytest.raises(AttributeError):
                    operator.attrgetter(name)(start)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("compile", "tg.function compiles NumPy functions"),
        ("nn.Transformer", "MultiheadAttention"),
        ("nn.TransformerEncoderLayer", "LayerNorm"),
        ("nn.Linaer", "did you mean Linear?"),
        ("nn.FractionalMaxPool2d", "docs/eager.md says what there is"),
        ("optim.Adm", "did you mean Adam?"),
        ("optim.Rprop", "write its step under torch.no_grad()"),
        ("utils.tensorboard", "loss.item()"),
        ("nn.functional.ctc_loss", "docs/eager.md says what there is"),
        ("nn.functional.rellu", "did you mean relu?"),
    ],
)
def test_missing_names_say_what_to_do(path: str, said: str) -> None:
    with pytest.raises(AttributeError) as caught:
        operator.attrgetter(path)(tg)
    owner, _, name = path.rpartition(".")
    assert f"module 'tracegrad{'.' if owner else ''}{owner}' has no attribute '{name}': " in str(caught.value)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "choose",
    [
        lambda x: torch.where(x < 10.0, x, x * 2.0),
        lambda x: x.clamp(0.0, 10.0),
        lambda x: x.clamp(min=0.0),
        lambda x: x.masked_fill(torch.tensor(False), 0.0),
        torch.nn.functional.leaky_relu,
        torch.nn.functional.elu,
    ],
)
def test_a_chosen_number_does_not_share_memory(choose):
    x = torch.tensor(2.0)
    chosen = choose(x)
    x += 5.0
    assert chosen.item() == 2.0


def test_products_by_the_names_of_their_operands() -> None:
    m, v = torch.ones(2, 3), torch.ones(3)
    assert torch.mm(m, mat2=m.T).shape == (2, 2) and torch.mm(input=m, mat2=m.T).shape == (2, 2)
    assert m.mv(vec=v).tolist() == [3.0, 3.0] and v.dot(tensor=v).item() == 3.0
    assert torch.bmm(m[None], mat2=m.T[None]).shape == (1, 2, 2)


def test_text_of_a_node_of_a_function() -> None:
    class Double(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, ct):
            return ct * 2

    node = Double.apply(torch.ones(2, requires_grad=True)).grad_fn
    assert repr(node).startswith("<torch.autograd.function.DoubleBackward object at 0x")
    assert repr(node.next_functions[0][0]).startswith("<AccumulateGrad object at 0x")


def test_grids_of_coordinates() -> None:
    x, y = torch.tensor([1.0, 2.0, 3.0], requires_grad=True), torch.tensor([10.0, 20.0])
    across, down = torch.meshgrid(x, y, indexing="xy")
    assert across.tolist() == [[1.0, 2.0, 3.0]] * 2 and down.tolist() == [[10.0] * 3, [20.0] * 3]
    (across * down).sum().backward()
    assert x.grad.tolist() == [30.0] * 3
    rows, columns = torch.meshgrid(x, y, indexing="ij")
    assert rows.shape == columns.shape == (3, 2) and rows[1, 0] == 2 and columns[0, 1] == 20
    last = torch.meshgrid(x, y, torch.arange(4.0), indexing="xy")[2]
    assert last.shape == (2, 3, 4) and last[0, 0].tolist() == [0, 1, 2, 3]


def test_tensors_that_have_the_shape_are_not_broadcast() -> None:
    x, y = torch.ones(3, requires_grad=True), torch.tensor(2.0)
    first, second = torch.broadcast_tensors(x, y)
    assert first is x and second.tolist() == [2.0] * 3
    with pytest.raises(RuntimeError, match="The size of tensor a"):
        torch.broadcast_tensors(x, torch.ones(2))


def test_derivatives_of_sinc_at_zero() -> None:
    for dtype in (torch.float64, torch.complex128):
        x = torch.tensor([0.0, 1e-4], dtype=dtype, requires_grad=True)
        (slope,) = torch.autograd.grad(x.sinc().real.sum(), x, create_graph=True)
        (bend,) = torch.autograd.grad(slope.real.sum(), x)
        np.testing.assert_allclose(slope[0].detach().numpy(), 0.0)
        np.testing.assert_allclose(bend.real.numpy(), -(np.pi**2) / 3, rtol=1e-5)


def test_hooks_on_states() -> None:
    model, seen = torch.nn.Sequential(torch.nn.Linear(1, 1)), []
    model[0].register_load_state_dict_pre_hook(lambda module, state, prefix, *more: state.pop(f"{prefix}old", None))
    model.register_state_dict_post_hook(lambda module, state, prefix, metadata: state.update({"0.old": 1}))
    handle = model.register_load_state_dict_post_hook(lambda module, keys: seen.append(list(keys.missing_keys)))
    state = model.state_dict()
    del state["0.bias"]
    with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "0.bias"'):
        model.load_state_dict(state)
    handle.remove()
    model.load_state_dict(state, strict=False)
    assert seen == [["0.bias"]]


def test_strides_of_empty_tensors() -> None:
    assert torch.empty(0, 3).stride() == (3, 1) and torch.ones(2, 0, 3).stride() == (3, 3, 1)
    assert torch.tensor([]).stride(0) == 1 and torch.ones(4, 3)[:, :0].stride() == (3, 1)


@pytest.mark.parametrize(
    "draw",
    [
        lambda: torch.bernoulli(torch.tensor(0.5)),
        lambda: torch.tensor(0.5).bernoulli(0.25),
        lambda: torch.normal(torch.tensor(0.0), torch.tensor(1.0)),
        lambda: torch.normal(0.0, 1.0, ()),
        lambda: torch.poisson(torch.tensor(2.0)),
        lambda: torch.randn((), dtype=torch.complex64).real,
        lambda: torch.nn.functional.alpha_dropout(torch.tensor(1.0), training=True),
        *(
            lambda name=name, numbers=numbers: getattr(torch.distributions, name)(*numbers).sample()
            for name, numbers in (("Gamma", (1.0, 1.0)), ("Chi2", (2.0,)), ("StudentT", (2.0,)), ("Poisson", (2.0,)))
        ),
    ],
)
def test_single_numbers_are_drawn_as_tensors(draw: Any) -> None:
    drawn = draw()
    assert isinstance(drawn, torch.Tensor) and drawn.shape == () and drawn.dtype == torch.float32
    assert drawn.item() == drawn.item()
