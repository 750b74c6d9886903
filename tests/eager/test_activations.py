"""Activations: in place as well as not, and their parameters in order as well as by name."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tests.eager.torch_like import torch

F = torch.nn.functional
IN_PLACE = [
    ("leaky_relu", (0.2,)), ("elu", (0.5,)), ("celu", (0.5,)), ("selu", ()), ("hardtanh", (-0.5, 0.7)), ("relu6", ()),
    ("silu", ()), ("mish", ()), ("hardswish", ()), ("hardsigmoid", ()), ("threshold", (0.3, -1.0)), ("relu", ()),
]  # fmt: skip
MODULES = (
    "LeakyReLU", "ELU", "CELU", "SELU", "Hardtanh", "ReLU6", "SiLU", "Mish", "Hardswish", "Hardsigmoid", "ReLU",
    "RReLU",
)  # fmt: skip


def gradients(apply: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return a result, and the gradient with respect to what led to it."""
    x = torch.linspace(-3.0, 3.0, 8).requires_grad_()
    out = apply(x * 2)
    (out * torch.arange(8.0)).sum().backward()
    return out.detach().numpy(), x.grad.numpy()


@pytest.mark.parametrize(("name", "parameters"), IN_PLACE)
def test_in_place(name: str, parameters: tuple[float, ...]) -> None:
    expected = gradients(lambda x: getattr(F, name)(x, *parameters))
    forms = [lambda x: getattr(F, name)(x, *parameters, inplace=True), lambda x: getattr(F, name)(x, *parameters, True)]
    if hasattr(F, f"{name}_"):
        forms.append(lambda x: getattr(F, f"{name}_")(x, *parameters))
    for form in forms:
        np.testing.assert_array_equal(gradients(form), expected)

    def through_a_view(x: Any) -> Any:
        forms[0](x[2:6])
        return x

    whole = getattr(F, name)(torch.linspace(-3.0, 3.0, 8) * 2, *parameters)
    values, slopes = gradients(through_a_view)
    np.testing.assert_array_equal(values[2:6], whole.numpy()[2:6])
    np.testing.assert_array_equal(slopes[2:6], expected[1][2:6])
    np.testing.assert_array_equal(slopes[:2], [0.0, 2.0])


@pytest.mark.parametrize("name", MODULES)
def test_modules_in_place(name: str) -> None:
    module = getattr(torch.nn, name)
    np.testing.assert_array_equal(gradients(module(inplace=True).eval()), gradients(module().eval()))
    assert "inplace=True" in repr(module(inplace=True))


def test_random_activations_in_place() -> None:
    for apply in (
        lambda x, inplace: F.dropout(x, 0.5, True, inplace), lambda x, inplace: F.rrelu(x, 0.1, 0.9, True, inplace),
        lambda x, inplace: F.alpha_dropout(x, 0.5, True, inplace),
    ):  # fmt: skip
        found = []
        for inplace in (False, True):
            torch.manual_seed(1)
            found.append(gradients(lambda x, apply=apply, inplace=inplace: apply(x, inplace)))
        np.testing.assert_array_equal(*found)


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    made = F.alpha_dropout(torch.randn(200, 200), 0.3, True)
    assert abs(float(made.mean())) < 0.02 and abs(float(made.var()) - 1) < 0.05
    assert torch.equal(F.alpha_dropout(made), made)


def test_gumbel_softmax() -> None:
    x = torch.zeros(2, 3, requires_grad=True)
    soft, hard = F.gumbel_softmax(x, 0.5), F.gumbel_softmax(x, 0.5, hard=True)
    assert torch.allclose(soft.sum(1), torch.ones(2))
    assert sorted(hard.detach().unique().tolist()) == [0.0, 1.0]
    (hard * torch.arange(3.0)).sum().backward()
    assert x.grad.abs().sum() > 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda x: F.leaky_relu(x, 0.1, True, 4),
            "leaky_relu() takes from 1 to 3 positional arguments but 4 were given",
        ),
        (lambda x: F.elu(x, beta=1.0), "elu() got an unexpected keyword argument 'beta'"),
        (lambda x: F.elu(x, 1.0, alpha=1.0), "elu() got multiple values for argument 'alpha'"),
        (lambda x: F.threshold(x), "threshold() missing 2 required positional arguments: 'threshold' and 'value'"),
        (lambda x: F.threshold_(x, 1.0), "threshold_() missing 1 required positional argument: 'value'"),
        (lambda x: F.mse_loss(x), "mse_loss() missing 1 required positional argument: 'target'"),
        (lambda x: torch.nn.ReLU(True, 1), "ReLU.__init__() takes from 1 to 2 positional arguments but 3 were given"),
        (lambda x: torch.nn.Tanh(1), "Tanh.__init__() takes 1 positional argument but 2 were given"),
        (lambda x: torch.nn.MaxPool2d(), "MaxPool2d.__init__() missing 1 required positional argument: 'kernel_size'"),
    ],
)
def test_wrong_arguments_are_named(call: Any, message: str) -> None:
    with pytest.raises(TypeError, match=re.escape(message)):
        call(torch.ones(2))


def test_flags_of_losses_that_reductions_replaced() -> None:
    x, y = torch.tensor([1.0, 4.0]), torch.tensor([0.0, 2.0])
    with pytest.warns(UserWarning, match="please use reduction='sum' instead"):
        assert F.mse_loss(x, y, False).item() == 5.0
    with pytest.warns(UserWarning, match="please use reduction='none' instead"):
        assert F.mse_loss(x, y, reduce=False).tolist() == [1.0, 4.0]
    with pytest.warns(UserWarning, match="please use reduction='sum' instead"):
        assert torch.nn.L1Loss(size_average=False)(x, y).item() == 3.0
    assert F.mse_loss(x, y, None, None, "mean", torch.tensor([1.0, 3.0])).item() == 13 / 4
    with pytest.raises(ValueError, match="Weights and input must have the same size"):
        F.mse_loss(x, y, weight=torch.ones(1))


def test_places_of_the_greatest() -> None:
    x = torch.tensor([[[3.0, 1.0, 2.0, 5.0, 4.0]]], requires_grad=True)
    values, places = F.max_pool1d(x, 2, ceil_mode=True, return_indices=True)
    assert (values.tolist(), places.tolist()) == ([[[3.0, 5.0, 4.0]]], [[[0, 3, 4]]])
    values, places = torch.nn.AdaptiveMaxPool1d(2, return_indices=True)(x)
    assert (values.tolist(), places.tolist()) == ([[[3.0, 5.0]]], [[[0, 3]]])
    values.sum().backward()
    assert x.grad.tolist() == [[[1.0, 0.0, 0.0, 1.0, 0.0]]]
    assert torch.nn.MaxPool1d(2, return_indices=True)(x)[1].tolist() == [[[0, 3]]]
