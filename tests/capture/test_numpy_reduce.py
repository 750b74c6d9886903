"""Reductions, scans, norms, sorting and searching: values and gradients against NumPy; conventions at kinks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.capture.numpy_rows import capture, check, positive, random, rows
from tracegrad.testing.interpret import interpret
from tracegrad.transform.vjp import gradient

V = random(6)
M, N = random(3, 4), random(3, 4, seed=1)
T = random(2, 3, 4)
P = positive(3, 4)
F = random(3, 4, dtype=np.float32)
H = random(3, 4).astype(np.float16)
I = np.array([[3, -1, 4], [2, 7, 0]])
B = np.array([[True, False, True], [False, False, True]])
MASK = np.array([[True, False, True, True], [False, True, True, False], [True, True, False, False]])
NAN = np.where(MASK, M, np.nan)


@rows(
    sum=(lambda x: np.sum(x), M),
    sum_axis=(lambda x: np.sum(x, axis=0), T),
    sum_axes=(lambda x: np.sum(x, axis=(0, -1)), T),
    sum_keepdims=(lambda x: x.sum(axis=1, keepdims=True), M),
    sum_method=(lambda x: x.sum(0), M),
    sum_where=(lambda x: np.sum(x, where=MASK), M),
    sum_where_traced=(lambda x: np.sum(x, axis=1, where=x > 0), M),
    sum_initial=(lambda x: np.sum(x, initial=3.0), M),
    sum_dtype=(lambda x: np.sum(x, dtype=np.float64), F),
    sum_ints=(lambda x: np.sum(x, axis=0), I),
    sum_bools=(lambda x: np.sum(x), B),
    sum_int32=(lambda x: np.sum(x), I.astype(np.int32)),
    sum_float16=(lambda x: np.sum(x, axis=0), F),
    add_reduce=(lambda x: np.add.reduce(x), M),
    add_reduce_axis=(lambda x: np.add.reduce(x, axis=1), M),
    maximum_reduce=(lambda x: np.maximum.reduce(x, axis=1), M),
    multiply_reduce=(lambda x: np.multiply.reduce(x), M),
    logaddexp_reduce=(lambda x: np.logaddexp.reduce(x, axis=1), M),
    mean=(lambda x: np.mean(x), M),
    mean_axis=(lambda x: x.mean(axis=1), M),
    mean_ints=(lambda x: np.mean(x, axis=0), I),
    mean_float32=(lambda x: np.mean(x), F),
    mean_where=(lambda x: np.mean(x, axis=1, where=MASK), M),
    var=(lambda x: np.var(x), M),
    var_ddof=(lambda x: np.var(x, axis=1, ddof=1), M),
    var_where=(lambda x: np.var(x, axis=1, where=MASK), M),
    std=(lambda x: np.std(x, axis=0), M),
    std_method=(lambda x: x.std(ddof=1, keepdims=True), M),
    prod=(lambda x: np.prod(x), M),
    prod_axis=(lambda x: x.prod(axis=1), M),
    prod_with_zeros=(lambda x: np.prod(x * np.array([1.0, 0.0, 1.0, 1.0]), axis=1), M),
    max=(lambda x: np.max(x), M),
    max_axis=(lambda x: x.max(axis=1), M),
    amax_keepdims=(lambda x: np.amax(x, axis=(0, 2), keepdims=True), T),
    max_initial=(lambda x: np.max(x, axis=0, initial=0.2), M),
    max_where=(lambda x: np.max(x, axis=0, initial=-5.0, where=MASK), M),
    max_bools=(lambda x: np.max(x, axis=0), B),
    max_ints=(lambda x: np.max(x, axis=0), I),
    min=(lambda x: np.min(x, axis=0), M),
    ptp=(lambda x: np.ptp(x, axis=1), M),
    argmax=(lambda x: np.argmax(x), M),
    argmax_axis=(lambda x: np.argmax(x, axis=1), M),
    argmin=(lambda x: x.argmin(axis=0), M),
    argmin_keepdims=(lambda x: np.argmin(x, axis=0, keepdims=True), M),
    any=(lambda x: np.any(x > 0.5, axis=0), M),
    all=(lambda x: (x > -0.9).all(), M),
    count_nonzero=(lambda x: np.count_nonzero(x > 0, axis=1), M),
    array_equal=(lambda x: np.array_equal(x, x * 1), M),
    average=(lambda x: np.average(x, axis=1), M),
    average_weights=(lambda x, w: np.average(x, axis=1, weights=w), M, positive(4)),
    average_full_weights=(lambda x, w: np.average(x, weights=w), M, P),
    average_returned=(lambda x, w: np.average(x, axis=0, weights=w, returned=True), M, P),
    cov=(lambda x: np.cov(x), M),
    cov_columns=(lambda x: np.cov(x, rowvar=False, bias=True), M),
    cov_two=(lambda x, y: np.cov(x, y), V, random(6, seed=4)),
    corrcoef=(lambda x: np.corrcoef(x), M),
    nansum=(lambda x: np.nansum(x + 0 * np.where(MASK, 0.0, np.nan), axis=0), M),
    nanmean=(lambda x: np.nanmean(np.where(MASK, x, np.nan), axis=1), M),
    nanmax=(lambda x: np.nanmax(np.where(MASK, x, np.nan), axis=1), M),
    nanmin=(lambda x: np.nanmin(np.where(MASK, x, np.nan)), M),
    nanvar=(lambda x: np.nanvar(np.where(MASK, x, np.nan), axis=1), M),
    nanstd=(lambda x: np.nanstd(np.where(MASK, x, np.nan)), M),
    nanargmax=(lambda x: np.nanargmax(x), NAN),
)
def test_reductions(function: Any, arrays: Any) -> None:
    check(function, arrays)


@rows(
    norm=(lambda x: np.linalg.norm(x), V),
    norm_of_matrix=(lambda x: np.linalg.norm(x), M),
    norm_axis=(lambda x: np.linalg.norm(x, axis=1), M),
    norm_keepdims=(lambda x: np.linalg.norm(x, axis=0, keepdims=True), M),
    norm_nuclear=(lambda x: np.linalg.norm(x, "nuc"), M),
    norm_spectral=(lambda x: np.linalg.norm(x, 2), M),
    norm_least=(lambda x: np.linalg.norm(x, -2), M),
    norm_spectral_axes=(lambda x: np.linalg.norm(x, 2, axis=(2, 0), keepdims=True), T),
    norm_nuclear_axes=(lambda x: np.linalg.matrix_norm(x, ord="nuc"), T),
    norm_one=(lambda x: np.linalg.norm(x, 1), V),
    norm_three=(lambda x: np.linalg.norm(x, 3), V),
    norm_half=(lambda x: np.linalg.norm(x, 0.5), V),
    norm_inf=(lambda x: np.linalg.norm(x, np.inf), V),
    norm_minus_inf=(lambda x: np.linalg.norm(x, -np.inf), V),
    norm_zero=(lambda x: np.linalg.norm(x, 0), V),
    norm_fro=(lambda x: np.linalg.norm(x, "fro"), M),
    norm_matrix_one=(lambda x: np.linalg.norm(x, 1), M),
    norm_matrix_inf=(lambda x: np.linalg.norm(x, np.inf), M),
    norm_stack=(lambda x: np.linalg.norm(x, axis=(1, 2)), T),
    norm_float32=(lambda x: np.linalg.norm(x), F),
    vector_norm=(lambda x: np.linalg.vector_norm(x, axis=0), M),
    matrix_norm=(lambda x: np.linalg.matrix_norm(x), T),
)
def test_norms(function: Any, arrays: Any) -> None:
    check(function, arrays)


@rows(
    cumsum=(lambda x: np.cumsum(x), V),
    cumsum_flat=(lambda x: np.cumsum(x), M),
    cumsum_axis=(lambda x: x.cumsum(axis=1), M),
    cumsum_ints=(lambda x: np.cumsum(x, axis=0), I),
    cumsum_bools=(lambda x: np.cumsum(x), B),
    cumprod=(lambda x: np.cumprod(x), V),
    cumprod_axis=(lambda x: np.cumprod(x, axis=0), M),
    accumulate=(lambda x: np.add.accumulate(x, axis=1), M),
    logaddexp_accumulate=(lambda x: np.logaddexp.accumulate(x, axis=1), M),
    logaddexp_accumulate_large=(lambda x: np.logaddexp.accumulate(500 * x), V),
    maximum_accumulate=(lambda x: np.maximum.accumulate(x), V),
    cumulative_sum=(lambda x: np.cumulative_sum(x, include_initial=True), V),
    diff=(lambda x: np.diff(x), V),
    diff_twice=(lambda x: np.diff(x, n=2), V),
    diff_axis=(lambda x: np.diff(x, axis=0), M),
    diff_prepend=(lambda x: np.diff(x, prepend=0.0, append=x[:1]), V),
    ediff1d=(lambda x: np.ediff1d(x, to_begin=1.0), V),
    gradient=(lambda x: np.gradient(x), V),
    gradient_spacing=(lambda x: np.gradient(x, 0.5, edge_order=2), V),
    gradient_axes=(lambda x: np.gradient(x, 0.5, 2.0), M),
    gradient_uneven=(lambda x, y: np.gradient(y, x), np.cumsum(positive(6)), V),
    trapezoid=(lambda y: np.trapezoid(y), V),
    trapezoid_x=(lambda y, x: np.trapezoid(y, x), V, np.cumsum(positive(6))),
    trapezoid_dx=(lambda y: np.trapezoid(y, dx=0.1, axis=0), M),
)
def test_scans(function: Any, arrays: Any) -> None:
    check(function, arrays)


@rows(
    sort=(lambda x: np.sort(x), V),
    sort_axis=(lambda x: np.sort(x, axis=0), M),
    sort_flat=(lambda x: np.sort(x, axis=None), M),
    argsort=(lambda x: np.argsort(x), V),
    argsort_axis=(lambda x: x.argsort(axis=0), M),
    sort_descending=(lambda x: -np.sort(-x), V),
    lexsort=(lambda x, i: np.lexsort((x, i)), V, np.array([1, 0, 1, 0, 2, 2])),
    median=(lambda x: np.median(x), V),
    median_odd=(lambda x: np.median(x, axis=0), M),
    median_keepdims=(lambda x: np.median(x, axis=(0, 1), keepdims=True), M),
    quantile=(lambda x: np.quantile(x, 0.3), V),
    quantile_axis=(lambda x: np.quantile(x, 0.7, axis=1), M),
    quantile_several=(lambda x: np.quantile(x, [0.1, 0.5, 0.9], axis=0), M),
    quantile_lower=(lambda x: np.quantile(x, 0.3, method="lower"), V),
    quantile_higher=(lambda x: np.quantile(x, 0.3, method="higher"), V),
    quantile_nearest=(lambda x: np.quantile(x, 0.3, method="nearest"), V),
    quantile_midpoint=(lambda x: np.quantile(x, 0.3, method="midpoint"), V),
    quantile_traced=(lambda x, q: np.quantile(x, q), V, np.float64(0.37)),
    percentile=(lambda x: np.percentile(x, 25, axis=1), M),
    percentile_ends=(lambda x: np.percentile(x, [0, 100]), V),
    searchsorted=(lambda x, v: np.searchsorted(x, v), np.sort(V), V),
    searchsorted_right=(lambda v: np.searchsorted([0.0, 0.5, 1.0], v, side="right"), np.array([0.5, -1.0, 2.0])),
    digitize=(lambda v: np.digitize(v, [-0.5, 0.0, 0.5]), V),
    digitize_falling=(lambda v: np.digitize(v, [0.5, 0.0, -0.5], right=True), V),
    bincount=(lambda w: np.bincount([0, 2, 2, 1, 0, 3], weights=w), V),
    bincount_traced=(lambda i, w: np.bincount(i, weights=w, minlength=5), np.array([0, 2, 2, 4, 0, 3]), V),
    bincount_counts=(lambda i: np.bincount(i, minlength=5), np.array([0, 2, 2, 4, 0, 3])),
    isin=(lambda i: np.isin(i, [1, 7]), I),
)
def test_sorting(function: Any, arrays: Any) -> None:
    check(function, arrays)


def _gradient(function: Any, *arrays: Any) -> Any:
    made, _ = capture(function, arrays)
    return interpret(gradient(made, [0], keep_primal=False), *arrays)[0]


def _second(function: Any, *arrays: Any) -> Any:
    """Return the gradient of the sum of the gradient."""
    made, _ = capture(function, arrays)
    first = gradient(made, [0], keep_primal=False)
    total, _ = capture(lambda g: np.sum(g), [np.asarray(arrays[0])])
    total.body.operations = [*first.body.operations, *total.body.operations]
    mapping = {total.body.params[0]: first.body.yields[0]}
    for operation in total.body.operations:
        operation.operands = [mapping.get(v, v) for v in operation.operands]
    total.body.params = first.body.params
    return interpret(gradient(total, [0], keep_primal=False), *arrays)[0]


@pytest.mark.parametrize(
    ("function", "at", "expected"),
    [
        (lambda x: np.sum(np.abs(x)), [0.0, 1.0], [0.0, 1.0]),
        (lambda x: np.linalg.norm(x), [0.0, 0.0], [0.0, 0.0]),
        (lambda x: np.sum(np.linalg.norm(x.reshape(2, 1), axis=1)), [0.0, -2.0], [0.0, -1.0]),
        (lambda x: np.linalg.norm(x, 3), [0.0, 0.0], [0.0, 0.0]),
        (lambda x: np.std(x), [2.0, 2.0], [0.0, 0.0]),
        (lambda x: np.sum(np.hypot(x, 0.0)), [0.0, 3.0], [0.0, 1.0]),
        (lambda x: np.max(x), [1.0, 1.0, 0.0], [0.5, 0.5, 0.0]),
        (lambda x: np.sum(np.maximum(x, 1.0)), [1.0, 2.0, 0.0], [0.5, 1.0, 0.0]),
        (lambda x: np.sum(np.clip(x, 0.0, 1.0)), [0.0, 1.0, 2.0, -1.0], [1.0, 1.0, 0.0, 0.0]),
        (lambda x: np.sum(x**0), [0.0, 2.0], [0.0, 0.0]),
        (lambda x: np.sum(x**2), [0.0, 2.0], [0.0, 4.0]),
        (lambda x: np.sum(np.where(x > 0, np.log(x), 0.0)), [0.0, 2.0, -1.0], [0.0, 0.5, 0.0]),
        (lambda x: np.sum(np.where(x > 0, np.sqrt(x), 0.0)), [0.0, 4.0], [0.0, 0.25]),
        (lambda x: np.sum(np.sort(x)[1:]), [1.0, 1.0, 0.0], [1.0, 1.0, 0.0]),
        (lambda x: np.sum(np.sinc(x)), [0.0, 1.0], [0.0, -1.0]),
        (lambda x: np.sum(np.round(x) + np.floor(x) + np.sign(x)), [0.5, 2.0], [0.0, 0.0]),
        (lambda x: np.prod(x), [0.0, 2.0, 3.0], [6.0, 0.0, 0.0]),
        (lambda x: np.prod(x), [0.0, 0.0, 3.0], [0.0, 0.0, 0.0]),
    ],
)
def test_conventions(function: Any, at: Any, expected: Any) -> None:
    with np.errstate(all="ignore"):
        found = _gradient(function, np.array(at))
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize(
    ("function", "at", "expected"),
    [
        (lambda x: np.linalg.norm(x), [3.0, 4.0], [(16 - 12) / 125, (9 - 12) / 125]),
        (lambda x: np.linalg.norm(x), [0.0, 0.0], [0.0, 0.0]),
        (lambda x: np.sum(np.sinc(x)), [0.0], [-(np.pi**2) / 3]),
        (lambda x: np.sum(x**3), [0.0, 2.0], [0.0, 12.0]),
        (lambda x: np.sum(np.clip(x, 0.0, 1.0) ** 2), [0.5, 2.0], [2.0, 0.0]),
    ],
)
def test_second_order(function: Any, at: Any, expected: Any) -> None:
    with np.errstate(all="ignore"):
        found = _second(function, np.array(at))
    np.testing.assert_allclose(found, expected, atol=1e-10)
