"""Functions of scipy.special on traced values: against SciPy, their gradients against differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.capture.numpy_rows import check, h, positive, random, rows
from tracegrad.errors import CaptureError

S = pytest.importorskip("scipy.special", reason="checks functions of SciPy against SciPy")

X, P, M = random(7), positive(7), random(3, 4)
SHARE = random(6, low=0.05, high=0.95)


def of_two(name: str, a: Any, b: Any) -> tuple[Any, ...]:
    return (lambda x, y: h(getattr(S, name))(x, y), a, b)


def of_one(name: str, a: Any) -> tuple[Any, ...]:
    return (lambda x: h(getattr(S, name))(x), a)


@rows(
    **{name: of_one(name, 3 * X) for name in "erfcx dawsn erfi i0e i1e j0 j1 exprel cosm1 sindg cosdg".split()},
    **{name: of_one(name, P) for name in "k0 k1 k0e k1e exp1 rgamma factorial tandg".split()},
    **{name: of_one(name, SHARE) for name in "ndtri erfcinv ellipk ellipe".split()},
    **{name: of_two(name, P, positive(7, seed=1)) for name in "gammainc gammaincc beta binom poch".split()},
    **{name: of_two(name, P, X) for name in "boxcox boxcox1p powm1 pseudo_huber".split()},
    **{name: of_two(name, X / 2, SHARE[:1]) for name in ("inv_boxcox", "inv_boxcox1p")},
    near_zero=(lambda x: h(S.exprel)(x) + h(S.inv_boxcox)(x, 0.3) + h(S.boxcox)(1.5, x), X * 1e-7),
    boxcox_of_power_zero=(lambda x: h(S.boxcox)(x, 0.0) + h(S.inv_boxcox)(x, 0.0), P),
    exprel_at_zero=(lambda x: h(S.exprel)(x), np.zeros(2)),
    rgamma_of_negatives=(lambda x: h(S.rgamma)(x), np.array([-0.5, -1.7, 0.1])),
    softplus=of_one("softplus", 3 * X),
    gammasgn=(lambda x: x * h(S.gammasgn)(x), np.array([-0.5, -1.7, 0.1])),
    betainc=(lambda a, b, x: h(S.betainc)(a, b, x) + h(S.betaincc)(b, a, x), P[:6], positive(6, seed=1), SHARE),
    students=(lambda df, t: h(S.stdtr)(df, t), P, 3 * X),
    students_near_zero=(lambda t: h(S.stdtr)(3.5, t), np.array([0.0, 1e-9, -1e-4, 1.8, 1.9])),
    chi_squared=(lambda df, x: h(S.chdtr)(df, x) + 2 * h(S.chdtrc)(x, df), P, positive(7, seed=1)),
    fishers=(lambda n, x: h(S.fdtr)(n, 2.5, x) + 2 * h(S.fdtrc)(x, n, 2.0), P, positive(7, seed=1)),
    poisson=(lambda m: h(S.pdtr)(3.0, m) + 2 * h(S.pdtrc)(np.array([0.0, 2.5])[:, None], m), P),
    of_gamma=(lambda a: h(S.gdtr)(a, 1.5, 0.7), P),
    polygamma_of_many=(lambda a: h(S.multigammaln)(a + 1, 3), P),
    combinations=(lambda n: h(S.comb)(n + 2, 2) + h(S.comb)(n + 1, 2, repetition=True), P),
    orders=(lambda x: h(S.jv)(3, x) + h(S.jv)(-3, x) / 3 + h(S.iv)(2, x) + h(S.kv)(2, x) + h(S.kn)(1, x), P),
    scaled_orders=(lambda x: h(S.ive)(2, x) + h(S.kve)(-1, x), P),
    legendre=(lambda x: h(S.eval_legendre)(5, x) + h(S.eval_legendre)(0, x) + h(S.eval_legendre)(1, x), X),
    chebyshev=(lambda x: h(S.eval_chebyt)(4, x) + 2 * h(S.eval_chebyu)(3, x), X),
    hermite=(lambda x: h(S.eval_hermite)(4, x) + 2 * h(S.eval_hermitenorm)(3, x), X),
    laguerre=(lambda x: h(S.eval_laguerre)(4, x), X),
    logsumexp_with_sign=(
        lambda x: list(h(S.logsumexp)(x, axis=1, b=np.array([1.0, -2.0, 3.0, 1.0]), return_sign=True)), M,
    ),
    logsumexp_with_sign_kept=(lambda x: list(h(S.logsumexp)(x, b=-1.0, keepdims=True, return_sign=True)), M),
)  # fmt: skip
def test_rows(function: Callable[..., Any], arrays: tuple[Any, ...]) -> None:
    check(function, arrays)


def test_single_precision() -> None:
    x = P.astype(np.float32)
    for name in ("k0", "erfcx", "dawsn", "exprel", "i0e", "ndtri"):
        function = getattr(S, name)
        found = tg.function(lambda x, function=function: function(x / 4))(x)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, function(x / 4), rtol=2e-6)


def test_elliptic_integrals_at_the_end() -> None:
    value, slope = tg.value_and_grad(lambda m: S.ellipe(m))(1.0)
    assert (value, slope) == (1.0, -np.inf)
    assert tg.value_and_grad(lambda m: S.ellipk(m))(1.0) == (np.inf, np.inf)


def test_second_derivatives() -> None:
    """d²/da² of P(a, x), and of the distribution function of Student's t at 0."""
    a, step = 1.7, 1e-4
    difference = (S.gammainc(a + step, 0.9) - 2 * S.gammainc(a, 0.9) + S.gammainc(a - step, 0.9)) / step**2
    np.testing.assert_allclose(tg.grad(tg.grad(lambda a: S.gammainc(a, 0.9)))(a), difference, rtol=1e-5)
    assert tg.grad(tg.grad(lambda t: S.stdtr(3.0, t)))(0.0) == 0.0


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda x: S.jv(x, 1.0), "jv of an order that is traced, or not whole"),
        (lambda x: S.kv(0.5, x), "kv of an order that is traced, or not whole"),
        (lambda x: S.eval_legendre(x, 0.3), "eval_legendre of a degree"),
        (lambda x: S.comb(x, 2, exact=True), "comb with exact=True"),
        (lambda x: S.y0(x), "scipy.special.y0 is not supported"),
    ],
)
def test_refused(function: Callable[[Any], Any], says: str) -> None:
    with pytest.raises(CaptureError, match=says):
        tg.grad(function)(1.5)
