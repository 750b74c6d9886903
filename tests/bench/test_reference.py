"""The hand-written gradients that tracegrad is measured against are right themselves."""

from __future__ import annotations

import numpy as np
import pytest

import tracegrad as tg
from tests.bench import programs, reference
from tests.zoo.numerics import differences


def test_rosenbrock() -> None:
    x = np.linspace(-1.0, 1.0, 10)
    call, ct_x = reference.prepare_rosenbrock(x)
    call()
    np.testing.assert_allclose(ct_x, differences(programs.rosenbrock, (x,), (0,))[0], rtol=1e-8, atol=1e-7)


def test_lorenz() -> None:
    s, p = programs.LORENZ_INPUTS
    call, gradients = reference.prepare_lorenz(s, p)
    assert call() == pytest.approx(programs.lorenz_endpoint(s, p), rel=1e-9)
    # the flow is chaotic: the fifth derivative is large, so the step is small
    expected = differences(programs.lorenz_endpoint, (s, p), (0, 1), step=2e-5)
    for ours, theirs in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_chain() -> None:
    x = np.linspace(-3.0, 3.0, 101)
    call, ct_x = reference.prepare_chain(x)
    assert call() == pytest.approx(programs.chain(x), rel=1e-13)
    np.testing.assert_allclose(ct_x, differences(programs.chain, (x,), (0,))[0], atol=1e-10)


def test_bundle() -> None:
    z, features = programs.bundle(4)
    z[2, :3] = 0.0
    call, jacobian = reference.prepare_bundle(z, features)
    call()
    for b in range(4):
        for row in range(2):
            expected = differences(lambda x, b=b, row=row: programs.reprojection(x, features[b])[row], (z[b],), (0,))[0]
            place = slice(3, 15) if b == 2 else slice(0, 15)  # near no rotation the two formulas differ in rounding
            np.testing.assert_allclose(jacobian[b, row, place], expected[place], rtol=1e-7, atol=1e-6)
    for backend in ("numpy", "c"):
        found = tg.vmap(tg.jacobian(programs.reprojection), backend=backend)(z, features)
        np.testing.assert_allclose(found, jacobian, rtol=1e-12, atol=1e-12)


def test_layer() -> None:
    expected = differences(programs.layer_loss, programs.LAYER_INPUTS, (0, 1))
    for ours, theirs in zip(programs.layer_gradient_by_hand(*programs.LAYER_INPUTS), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-10)


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_tracegrad_gives_what_the_references_give(backend: str) -> None:
    s, p = programs.LORENZ_INPUTS
    call, expected = reference.prepare_lorenz(s, p)
    call()
    for ours, theirs in zip(
        tg.grad(programs.lorenz_endpoint, argnums=(0, 1), backend=backend)(s, p), expected, strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8)
    x = np.linspace(-3.0, 3.0, 1001)
    call, ct_x = reference.prepare_chain(x)
    value = call()
    found, gradient = tg.value_and_grad(programs.chain, backend=backend)(x)
    assert float(found) == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(gradient, ct_x, atol=1e-15)
