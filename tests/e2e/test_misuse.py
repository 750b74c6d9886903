"""Calls that are natural and wrong say what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.errors import ArgumentTypeError

X = np.ones(3)


def loss(params: Any, x: Any = None, y: Any = None) -> Any:
    return np.sum(params["w"] ** 2)


CALLS: list[tuple[Callable[[Any], Any], str]] = [
    (
        lambda g: g.grad(loss, {"w": X}),
        r"position or name of an argument, not its value(.|\n)*tg.grad\(loss\)\(\.\.\.\)",
    ),
    (lambda g: g.hessian(loss, X), r"tg.hessian\(loss\)\(\.\.\.\)"),
    (lambda g: g.grad(loss, 0, X), "not its value"),
    (lambda g: g.grad(loss, {"w": X}, X, X), r"too many positional(.|\n)*tg.grad\(loss\)\(\.\.\.\)"),
    (lambda g: g.value_and_grad(loss, wrt="params"), r"'wrt'(.|\n)*argnums"),
    (lambda g: g.vmap(loss, axis=0), "in_axes and out_axes"),
    (lambda g: g.function(loss, X), "backend and dynamic"),
    (lambda g: g.jvp(loss, X), "missing(.|\n)*arguments, tangents"),
    (lambda g: g.explain(loss, X), r"print\(tg.explain\(f\)\(\.\.\.\)\)"),
    (lambda g: g.debug_nans(True), r"with tg.debug_nans\(\)"),
    (lambda g: g.grad(loss).source(), r"arguments like those of a call(.|\n)*loss\(params, x"),
]


@pytest.mark.parametrize(("misuse", "says"), CALLS)
def test_call(misuse: Any, says: str) -> None:
    with pytest.raises(ArgumentTypeError, match=says):
        misuse(tg)


def test_type_errors_of_functions_pass() -> None:
    def f(x: Any) -> Any:
        raise TypeError("of the function")

    with pytest.raises(TypeError, match=r"^of the function"):
        tg.vjp(f, X)


@pytest.mark.parametrize(
    ("owner", "name", "says"),
    [
        (tg, "graad", "did you mean grad?"),
        (tg, "sparse_coo_tensor", "docs/eager.md"),
        (tg.ones(2), "reshap", "did you mean reshape?"),
        (tg.ones(2), "to_mkldnn", "docs/eager.md"),
    ],
)
def test_attribute(owner: Any, name: str, says: str) -> None:
    with pytest.raises(AttributeError, match=f"has no attribute '{name}': .*{says}"):
        getattr(owner, name)


def test_attribute_of_a_traced_array() -> None:
    with pytest.raises(AttributeError, match=r"'summ'(.|\n)*did you mean sum\?"):
        tg.grad(lambda x: x.summ())(X)


def test_device_of_torch_scripts() -> None:
    device = tg.device("cuda" if tg.cuda.is_available() else "cpu")
    assert tg.cuda.device_count() == 0
    assert tg.nn.Linear(2, 1).to(device)(tg.ones(3, 2).to(device)).shape == (3, 1)
