"""Values, gradients and gradients of gradients of operations, against torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.peers.operations import ALL, Case

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch (CPU)")


def plain(tensor: Any) -> np.ndarray:
    """Return the values of a tensor of either library."""
    return np.array(tensor.numpy(force=True))


def run(T: Any, case: Case, cotangents: dict[str, np.ndarray]) -> tuple[str, dict[str, np.ndarray]]:
    """Return the name of the node; and value, gradients, and gradients of their weighted sum, with names."""
    tensors = [T.tensor(a, requires_grad=True) for a in case.arrays()]
    out = case.call(T, T.nn.functional, *tensors)
    found = [("value", out)]

    def weights(name: str, tensor: Any) -> Any:
        values = plain(tensor)
        rng = np.random.default_rng(7)
        made = rng.uniform(0.5, 1.5, values.shape)
        made = made + 1j * rng.uniform(0.5, 1.5, values.shape) if values.dtype.kind == "c" else made
        return T.tensor(cotangents.setdefault(name, made.astype(values.dtype)))

    if out.requires_grad:
        first = T.autograd.grad(out, tensors, weights("out", out), create_graph=case.twice, allow_unused=True)
        found += [(f"gradient {k}", g) for k, g in enumerate(first) if g is not None]
        again = [(k, g) for k, g in enumerate(first) if g is not None and g.requires_grad] if case.twice else []
        if again:
            cts = [weights(f"first {k}", g) for k, g in again]
            second = T.autograd.grad([g for _, g in again], tensors, cts, allow_unused=True)
            found += [
                (f"second gradient {k}", g) for k, g in enumerate(second) if g is not None and np.any(plain(g) != 0)
            ]
    return type(out.grad_fn).__name__, {name: plain(t) for name, t in found}


@pytest.mark.filterwarnings("ignore:torch.(qr|cholesky) is deprecated:UserWarning")
@pytest.mark.parametrize("case", ALL, ids=lambda c: c.name.replace(" ", "") + str(list(c.shapes)))
def test_operation(case: Case) -> None:
    cotangents: dict[str, np.ndarray] = {}
    expected_node, expected = run(torch, case, cotangents)
    node, found = run(tg, case, cotangents)
    assert node == expected_node
    for name, value in expected.items():
        if name not in found and np.abs(value).max() < 1e-12:
            continue
        assert name in found, f"{name} is missing"
        assert found[name].dtype == value.dtype
        np.testing.assert_allclose(found[name], value, rtol=1e-9, atol=1e-11, err_msg=name)
    for name, value in found.items():
        assert name in expected or np.abs(value).max() < 1e-12, f"{name} is not in torch"
