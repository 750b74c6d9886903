"""Functions that NumPy lacks and that generated gradients call; their text is copied into the generated module.

Each function needs NumPy, math and functions above it only. Called by the `numpy` texts of records.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np


def each(function: Callable[[float], float], x: Any) -> Any:
    """Apply a function of one Python float to every element; a pole or an overflow gives infinity."""

    def guarded(value: float) -> float:
        try:
            return function(value)
        except (ValueError, OverflowError):
            return math.inf

    x = np.asarray(x)
    return np.array([guarded(v) for v in x.ravel().tolist()]).astype(x.dtype).reshape(x.shape)


def lgamma(x: Any) -> Any:
    """Return log(|gamma(x)|)."""
    return each(math.lgamma, x)


def gamma(x: Any) -> Any:
    """Return the gamma function; NaN at the negative integers."""
    values = each(math.gamma, x)
    return np.where((np.asarray(x) < 0) & (np.floor(x) == x), np.full_like(values, np.nan), values)


def blend(condition: Any, x: Any, y: Any) -> Any:
    """Return np.where(condition, x, y), by bits: no branch per element, which is slow where the condition varies."""
    dtype = np.result_type(x, y)
    bits = f"i{dtype.itemsize}"
    x, y = np.asarray(x, dtype).view(bits), np.asarray(y, dtype).view(bits)
    chosen = np.negative(np.asarray(condition).view(np.int8)).astype(bits)  # all bits where it holds, else none
    if not y.ndim and not y:
        return (x & chosen).view(dtype)
    return ((x ^ y) & chosen ^ y).view(dtype)


def horner(x: Any, coefficients: Any) -> Any:
    """Return the polynomial with these coefficients, the constant first."""
    result = x * x.dtype.type(coefficients[-1])
    for coefficient in coefficients[-2:0:-1]:
        result += x.dtype.type(coefficient)
        result *= x
    result += x.dtype.type(coefficients[0])
    return result


def in_pieces(x: Any, *pieces: Any) -> Any:
    """Return the function that is given by pieces (end, function), from below; NaN for NaN."""
    result = np.full(x.size, np.nan)
    flat, start = x.reshape(-1), -math.inf
    for end, function in pieces:
        places = np.flatnonzero((flat >= start) & (flat < end))
        result[places] = function(flat[places])
        start = end
    return result.reshape(x.shape)


def in_blocks(function: Any, x: Any) -> Any:
    """Return function(x) of each element, computed in blocks that stay in the cache."""
    flat = x.reshape(-1)
    result = np.empty_like(flat)
    for start in range(0, x.size, 8192):
        result[start : start + 8192] = function(flat[start : start + 8192])
    return result.reshape(x.shape)


def erf_excess(x: Any) -> Any:
    """Return erf(x) - x where |x| < 0.84375. Source: Sun's fdlibm, s_erf.c."""
    over = (1.28379167095512558561e-01, -3.25042107247001499370e-01, -2.84817495755985104766e-02,
            -5.77027029648944159157e-03, -2.37630166566501626084e-05)  # fmt: skip
    under = (1.0, 3.97917223959155352819e-01, 6.50222499887672944485e-02, 5.08130628187576562776e-03,
             1.32494738004321644526e-04, -3.96022827877536812320e-06)  # fmt: skip
    square = x * x
    return x * (horner(square, over) / horner(square, under))


def erf_from_one(x: Any) -> Any:
    """Return erf(x) - 0.84506291151046753 where 0.84375 <= x < 1.25. Source: fdlibm."""
    over = (-2.36211856075265944077e-03, 4.14856118683748331666e-01, -3.72207876035701323847e-01,
            3.18346619901161753674e-01, -1.10894694282396677476e-01, 3.54783043256182359371e-02,
            -2.16637559486879084300e-03)  # fmt: skip
    under = (1.0, 1.06420880400844228286e-01, 5.40397917702171048937e-01, 7.18286544141962662868e-02,
             1.26171219808761642112e-01, 1.36370839120290507362e-02, 1.19844998467991074170e-02)  # fmt: skip
    return horner(x - 1.0, over) / horner(x - 1.0, under)


def erfc_correction(x: Any) -> Any:
    """Return log(x exp(x²) (1 - erf(x))) + 0.5625 where x >= 1.25. Source: fdlibm, whose polynomials end at x = 28."""
    over = (-9.86494403484714822705e-03, -6.93858572707181764372e-01, -1.05586262253232909814e+01,
            -6.23753324503260060396e+01, -1.62396669462573470355e+02, -1.84605092906711035994e+02,
            -8.12874355063065934246e+01, -9.81432934416914548592e+00)  # fmt: skip
    under = (1.0, 1.96512716674392571292e+01, 1.37657754143519042600e+02, 4.34565877475229228821e+02,
             6.45387271733267880336e+02, 4.29008140027567833386e+02, 1.08635005541779435134e+02,
             6.57024977031928170135e+00, -6.04244152148580987438e-02)  # fmt: skip
    over_beyond = (-9.86494292470009928597e-03, -7.99283237680523006574e-01, -1.77579549177547519889e+01,
                   -1.60636384855821916062e+02, -6.37566443368389627722e+02, -1.02509513161107724954e+03,
                   -4.83519191608651397019e+02)  # fmt: skip
    under_beyond = (1.0, 3.03380607434824582924e+01, 3.25792512996573918826e+02, 1.53672958608443695994e+03,
                    3.19985821950859553908e+03, 2.55305040643316442583e+03, 4.74528541206955367215e+02,
                    -2.24409524465858183362e+01)  # fmt: skip
    w = 1.0 / (x * x)
    return in_pieces(
        w, (0.35**2, lambda w: horner(w, over_beyond) / horner(w, under_beyond)),
        (1.0, lambda w: horner(w, over) / horner(w, under)),
    )  # fmt: skip


def erfc_far(x: Any) -> Any:
    """Return 1 - erf(x) where 1.25 <= x < 28."""
    short = x.astype(np.float32).astype(np.float64)  # its square has no rounding error
    return np.exp(-short * short - 0.5625) * np.exp((short - x) * (short + x) + erfc_correction(x)) / x


def erf_of_single(x: Any) -> Any:
    """Return the error function of float32, by polynomials that were fitted by least squares."""
    near = (0.1283791613158956, -0.3761257997878444, 0.11282815066900566, -0.026806637366038576,
            0.005058061532749896, -0.0006356527270991319)  # fmt: skip
    far = (0.00029075612762685665, -1.1301172092506109, -0.6320196780470071, -0.10990238771386505,
           0.02632268793063423, -0.004725801986968538, 0.0005897697710188592, -4.524384240896191e-05,
           1.5969650033536772e-06)  # fmt: skip
    size, border = np.abs(x), np.float32(0.84375)
    small = np.minimum(size, border)
    below = small + small * horner(small * small, near)
    above = np.float32(1.0) - np.exp(horner(np.minimum(size, np.float32(4.0)), far))
    return np.copysign(blend(size > border, above, below), x)


def erf_of_double(x: Any) -> Any:
    """Return the error function of float64."""
    return np.copysign(
        in_pieces(
            np.minimum(np.abs(x), 6.0), (0.84375, lambda x: x + erf_excess(x)),
            (1.25, lambda x: 0.84506291151046753 + erf_from_one(x)), (math.inf, lambda x: 1.0 - erfc_far(x)),
        ), x,
    )  # fmt: skip


def erf(x: Any) -> Any:
    """Return the error function, to the last digits of the dtype."""
    x = np.asarray(x)
    if x.size < 64:
        return each(math.erf, x)
    if x.dtype == np.float64:
        return in_blocks(erf_of_double, x)
    return in_blocks(erf_of_single, x.astype(np.float32, copy=False)).astype(x.dtype, copy=False)


def logistic(x: Any) -> Any:
    """Return 1 / (1 + exp(-x)) without overflow."""
    tail = np.exp(-np.abs(x))
    return (np.maximum(tail, x >= 0) / (1.0 + tail)).astype(tail.dtype, copy=False)


def erfc_of_double(x: Any) -> Any:
    """Return 1 - erf(x) of float64."""
    return in_pieces(
        np.clip(x, -6.0, 28.0), (-1.25, lambda x: 2.0 - erfc_far(-x)),
        (-0.84375, lambda x: 1.84506291151046753 + erf_from_one(-x)), (0.25, lambda x: 1.0 - (x + erf_excess(x))),
        (0.84375, lambda x: 0.5 - (erf_excess(x) + (x - 0.5))),
        (1.25, lambda x: 1.0 - 0.84506291151046753 - erf_from_one(x)), (math.inf, erfc_far),
    )  # fmt: skip


def erfc(x: Any) -> Any:
    """Return 1 - erf(x) without cancellation."""
    x = np.asarray(x)
    if x.size < 64:
        return each(math.erfc, x)
    return in_blocks(erfc_of_double, x.astype(np.float64, copy=False)).astype(x.dtype, copy=False)


def softplus(x: Any) -> Any:
    """Return log(1 + exp(x)) without overflow."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def add_rows(x: Any, indices: Any, values: Any) -> Any:
    """Add rows of values to the rows of a contiguous x at indices: np.add.at is fastest where all axes are one."""
    width = math.prod(x.shape[1:])
    places = np.asarray(indices)[..., None] * width + np.arange(width)
    values = np.broadcast_to(values, (*np.shape(indices), *x.shape[1:]))
    np.add.at(x.reshape(-1), places.reshape(-1), values.reshape(-1))


def normal_quantile(q: Any, tail_share: Any) -> Any:
    """Return where the normal distribution function is q + 1/2; `tail_share` is the share of the nearer tail, > 0.

    Source: M. J. Wichura, Algorithm AS 241: the percentage points of the normal distribution (1988), PPND16.
    """
    root = np.sqrt(-np.log(tail_share))

    def ratio(r: Any, upper: Any, lower: Any) -> Any:
        return np.polyval(upper, r) / np.polyval((*lower, 1.0), r)

    middle = q * ratio(
        0.180625 - q * q,
        (2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4, 4.5921953931549871457e4,
         1.3731693765509461125e4, 1.9715909503065514427e3, 1.3314166789178437745e2, 3.3871328727963666080),
        (5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4, 2.1213794301586595867e4,
         5.3941960214247511077e3, 6.8718700749205790830e2, 4.2313330701600911252e1),
    )  # fmt: skip
    tail = ratio(
        np.minimum(root, 5.0) - 1.6,
        (7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258,
         3.64784832476320460504, 5.76949722146069140550, 4.63033784615654529590, 1.42343711074968357734),
        (1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
         6.89767334985100004550e-1, 1.67638483018380384940, 2.05319162663775882187),
    )  # fmt: skip
    far = ratio(
        np.maximum(root, 5.0) - 5.0,
        (2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2,
         2.96560571828504891230e-1, 1.78482653991729133580, 5.46378491116411436990, 6.65790464350110377720),
        (2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
         1.48753612908506148525e-2, 1.36929880922735805310e-1, 5.99832206555887937690e-1),
    )  # fmt: skip
    return np.where(np.abs(q) <= 0.425, middle, np.copysign(np.where(root <= 5.0, tail, far), q))


def erfinv(x: Any) -> Any:
    """Return the inverse of erf; infinite at -1 and 1, NaN beyond."""
    dtype = np.asarray(x).dtype
    x = np.asarray(x, np.float64)
    size = np.abs(x)
    inside = size < 1.0
    q = np.where(inside, 0.5 * x, 0.0)
    result = normal_quantile(q, 0.5 - np.abs(q)) * math.sqrt(0.5)
    return np.where(inside, result, np.where(size == 1.0, np.copysign(np.inf, x), np.nan)).astype(dtype)


def ndtri(p: Any) -> Any:
    """Return where the normal distribution function is p; infinite at 0 and 1, NaN beyond."""
    dtype = np.asarray(p).dtype
    p = np.asarray(p, np.float64)
    inside = (p > 0.0) & (p < 1.0)
    share = np.where(inside, p, 0.5)
    result = normal_quantile(share - 0.5, np.minimum(share, 1.0 - share))
    end = np.where(p == 0.0, -np.inf, np.where(p == 1.0, np.inf, np.nan))
    return np.where(inside, result, end).astype(dtype)


def digamma(x: Any) -> Any:
    """Return the derivative of lgamma; infinite at 0, NaN at -1, -2, ...

    Source: Abramowitz and Stegun, 6.3.5 (recurrence), 6.3.7 (reflection), 6.3.18 (asymptotic series).
    """
    dtype = np.asarray(x).dtype
    x = np.asarray(x, np.float64)
    reflected = x <= 0
    pole = reflected & (np.floor(x) == x)
    z = np.where(reflected, 1.0 - x, x)
    result = np.zeros_like(z)
    for _ in range(10):
        small = z < 10.0
        result = np.where(small, result - 1.0 / z, result)
        z = np.where(small, z + 1.0, z)
    square = 1.0 / (z * z)
    series = np.zeros_like(z)
    for coefficient in (691 / 32760, 1 / 132, 1 / 240, 1 / 252, 1 / 120, 1 / 12):
        series = square * (coefficient - series)
    result = result + np.log(z) - 0.5 / z - series
    angle = np.where(pole, 0.5, x - np.round(x))
    result = np.where(reflected, result - math.pi / np.tan(math.pi * np.where(reflected, angle, 0.5)), result)
    return np.where(pole, np.where(x == 0, -np.copysign(np.inf, x), np.nan), result).astype(dtype)


def polygamma(order: int, x: Any) -> Any:
    """Return the derivative of digamma of an order >= 1; infinite or NaN at 0, -1, -2, ...

    Source: Abramowitz and Stegun, 6.4.6 (recurrence), 6.4.7 (reflection), 6.4.11 (asymptotic series).
    """
    dtype = np.asarray(x).dtype
    x = np.asarray(x, np.float64)
    reflected = x <= 0
    pole = reflected & (np.floor(x) == x)
    z = np.where(reflected, 1.0 - x, x)
    result = np.zeros_like(z)
    for _ in range(14 + order):
        small = z < 14.0 + order
        result = np.where(small, result + z ** -(order + 1.0), result)
        z = np.where(small, z + 1.0, z)
    result = math.factorial(order) * result
    result = result + math.factorial(order - 1) / z**order + math.factorial(order) / (2.0 * z ** (order + 1))
    bernoulli = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
    for k, b in enumerate(bernoulli, 1):
        result = result + b * math.factorial(2 * k + order - 1) / math.factorial(2 * k) / z ** (2 * k + order)
    # d^order/dx^order of pi cot(pi x) is pi^(order+1) times a polynomial p in c = cot(pi x), and p' goes with -(1 + c²)
    polynomial = np.polynomial.Polynomial([0.0, 1.0])
    for _ in range(order):
        polynomial = polynomial.deriv() * np.polynomial.Polynomial([-1.0, 0.0, -1.0])
    cotangent = 1.0 / np.tan(math.pi * np.where(reflected & ~pole, x - np.round(x), 0.5))
    mirrored = -result - math.pi ** (order + 1) * polynomial(cotangent)
    result = np.where(reflected, mirrored, (-1.0) ** (order + 1) * result)
    return np.where(pole, np.inf if order % 2 else np.nan, result).astype(dtype)


def bessel_i(order: int, x: Any, scaled: bool = False) -> Any:
    """Return the modified Bessel function of the first kind, of an order >= 0; times exp(-|x|) where scaled.

    Source: Abramowitz and Stegun, 9.6.10 (series), 9.7.1 (asymptotic series).
    """
    dtype = np.asarray(x).dtype
    x = np.asarray(x, np.float64)
    size = np.abs(x)
    small = size <= 30.0
    half = np.where(small, size, 0.0) / 2.0
    term = half**order / math.factorial(order)
    series = term
    for k in range(1, 61):
        term = term * half * half / (k * (k + order))
        series = series + term
    z = np.where(small, 31.0, size)
    term = tail = np.ones_like(z)
    for k in range(1, 31):
        term = term * ((2 * k - 1) ** 2 - 4 * order**2) / (8 * k * z)
        tail = tail + term
    with np.errstate(over="ignore", invalid="ignore"):
        near, growth = (np.exp(-half * 2.0), 1.0) if scaled else (1.0, np.exp(z))
        result = np.where(small, near * series, growth / np.sqrt(2 * math.pi * z) * tail)
    return (np.where(x < 0, -result, result) if order % 2 else result).astype(dtype)


def bessel_j(order: int, x: Any) -> Any:
    """Return the Bessel function of the first kind, of an order >= 0.

    Source: Abramowitz and Stegun, 9.1.10 (series), 9.1.21 (integral, by the trapezoidal rule), 9.2.5 (asymptotic).
    """
    dtype = np.asarray(x).dtype
    x = np.asarray(x, np.float64)
    size = np.abs(x)
    border = max(25.0, 0.5 * order * order)
    small, large = size * size < 4.0 * (order + 1.0), size > border
    half = np.where(small, size, 0.0) / 2.0
    term = half**order / math.factorial(order)
    series = term
    for k in range(1, 31):
        term = term * half * half / (-k * (k + order))
        series = series + term
    middle = np.where(small | large, 0.0, size)
    count = int(border) + order + 60
    angles = np.arange(1, count) * (math.pi / count)
    integral = (1.0 + (-1.0) ** order) / 2.0 + sum(np.cos(order * t - middle * math.sin(t)) for t in angles.tolist())
    z = np.where(large, size, border + 1.0)
    z = np.where(np.isfinite(z), z, border + 1.0)
    term, even, odd = np.ones_like(z), np.ones_like(z), np.zeros_like(z)
    for k in range(1, 31):
        term = term * (4 * order**2 - (2 * k - 1) ** 2) / (8 * k * z)
        if k % 2:
            odd = odd + (-1.0) ** (k // 2) * term
        else:
            even = even + (-1.0) ** (k // 2) * term
    phase = z - (order / 2 + 0.25) * math.pi
    far = np.sqrt(2.0 / (math.pi * z)) * (even * np.cos(phase) - odd * np.sin(phase))
    result = np.where(small, series, np.where(large, np.where(np.isinf(size), 0.0, far), integral / count))
    result = np.where(np.isnan(x), x, result)
    return (np.where(x < 0, -result, result) if order % 2 else result).astype(dtype)


def bessel_k(order: int, x: Any, scaled: bool = False) -> Any:
    """Return the modified Bessel function of the second kind, of an order >= 0 and x > 0; times exp(x) where scaled.

    Source: Abramowitz and Stegun, 9.6.24 (integral of orders 0 and 1, by the trapezoidal rule, which converges to the
    last digits), 9.6.26 (recurrence).
    """
    dtype = np.asarray(x).dtype
    x = np.asarray(x, np.float64)
    inside = (x > 0.0) & (x < np.inf)
    z = np.where(inside, x, 1.0)
    step = np.arccosh(1.0 + 60.0 / z) / 80.0  # beyond 80 steps the integrand is nothing
    below, value = 0.5 * step, 0.5 * step
    for k in range(1, 81):
        weight = step * np.exp(-2.0 * z * np.sinh(0.5 * k * step) ** 2)
        below, value = below + weight, value + weight * np.cosh(k * step)
    with np.errstate(over="ignore"):
        for n in range(1, order):
            below, value = value, below + 2.0 * n / z * value
        result = (value if order else below) * (1.0 if scaled else np.exp(-z))
    return np.where(inside, result, np.where(x == 0.0, np.inf, np.where(x > 0.0, 0.0, np.nan))).astype(dtype)


def erfcx(x: Any) -> Any:
    """Return exp(x²) (1 - erf(x)) without overflow where x is large."""
    dtype = np.asarray(x).dtype
    x = np.asarray(x, np.float64)
    large = x >= 1.25
    low, high = np.where(large, 0.0, x), np.where(large, x, 2.0)
    with np.errstate(over="ignore"):
        near = np.exp(low * low) * erfc(low)
    return np.where(large, np.exp(erfc_correction(high) - 0.5625) / high, near).astype(dtype)


def dawsn(x: Any) -> Any:
    """Return Dawson's integral, exp(-x²) times the integral of exp(t²) from 0 to x.

    Source: G. B. Rybicki, Dawson's integral and the sampling theorem (1989); Abramowitz and Stegun, 7.1.23, far out.
    """
    dtype = np.asarray(x).dtype
    x = np.asarray(x, np.float64)
    size = np.abs(x)
    far = size > 12.0
    near = np.where(far, 1.0, size)
    step = 0.25
    place = 2.0 * np.rint(near / (2.0 * step))
    shift = near - place * step
    total = np.zeros_like(near)
    for k in range(-25, 27, 2):
        total = total + np.exp(-((shift - k * step) ** 2)) / (place + k)
    z = np.where(far, size, 13.0)
    w = 0.5 / (z * z)
    tail = np.ones_like(z)
    for k in range(12, 0, -1):
        tail = 1.0 + (2 * k - 1) * w * tail
    small = size < 0.1
    square = np.where(small, x, 0.0) ** 2
    series = np.ones_like(square)
    for k in range(8, 0, -1):
        series = 1.0 - 2.0 * square / (2 * k + 1) * series
    result = np.where(far, 0.5 / z * tail, total / math.sqrt(math.pi))
    return np.where(small, x * series, np.copysign(result, x)).astype(dtype)


def exp1(x: Any) -> Any:
    """Return the integral of exp(-t) / t from x > 0 to infinity. Source: Abramowitz and Stegun, 5.1.11 and 5.1.22."""
    dtype = np.asarray(x).dtype
    x = np.asarray(x, np.float64)
    small = x < 1.5
    low, high = np.where(small & (x > 0), x, 1.0), np.where(small, 2.0, x)
    term, series = np.ones_like(low), np.zeros_like(low)
    for k in range(1, 31):
        term = term * -low / k
        series = series - term / k
    below = series - np.log(low) - 0.57721566490153286061
    fraction = np.zeros_like(high)
    for k in range(80, 0, -1):
        fraction = k / (1.0 + k / (high + fraction))
    result = np.where(small, below, np.exp(-high) / (high + fraction))
    return np.where(x > 0, result, np.where(x == 0, np.inf, np.nan)).astype(dtype)


def jet_product(p: Any, q: Any) -> Any:
    """Return the product of truncated power series in two variables: coefficients along the first two axes."""
    result = np.zeros(np.broadcast_shapes(p.shape, q.shape))
    for i, j in np.ndindex(*p.shape[:2]):
        result[i:, j:] += p[i, j] * q[: p.shape[0] - i, : p.shape[1] - j]
    return result


def jet_reciprocal(p: Any) -> Any:
    """Return 1 / p of a truncated power series in two variables."""
    result = np.zeros_like(p)
    result[0, 0] = 1.0 / p[0, 0]
    for i, j in np.ndindex(*p.shape[:2]):
        if i or j:
            rest = np.sum(p[: i + 1, : j + 1] * result[i::-1, j::-1][: i + 1, : j + 1], axis=(0, 1))
            result[i, j] = -rest / p[0, 0]
    return result


def jet_exp(p: Any) -> Any:
    """Return exp(p) of a truncated power series in two variables."""
    rest = p.copy()
    rest[0, 0] = 0.0
    result, term = np.zeros_like(p), np.zeros_like(p)
    result[0, 0] = term[0, 0] = 1.0
    for k in range(1, p.shape[0] + p.shape[1] - 1):
        term = jet_product(term, rest) / k
        result += term
    return result * np.exp(p[0, 0])


def jet_lgamma(z: Any, like: Any, along: tuple[int, ...]) -> Any:
    """Return lgamma(z) as a power series in the variables `along`, each of which z grows with."""
    result = np.zeros_like(like)
    for i, j in np.ndindex(*like.shape[:2]):
        if (not i or 0 in along) and (not j or 1 in along):
            n = i + j
            value = lgamma(z) if n == 0 else digamma(z) if n == 1 else polygamma(n - 1, z)
            result[i, j] = value / (math.factorial(i) * math.factorial(j))
    return result


def gammainc(order: int, a: Any, x: Any) -> Any:
    """Return the derivative of an order >= 0 in a of the regularized lower incomplete gamma function.

    Source: Abramowitz and Stegun, 6.5.29 (series), 6.5.31 (continued fraction), as power series in a.
    """
    return incomplete_gamma(order, a, x, False)


def gammaincc(a: Any, x: Any) -> Any:
    """Return the regularized upper incomplete gamma function."""
    return incomplete_gamma(0, a, x, True)


def incomplete_gamma(order: int, a: Any, x: Any, upper: bool) -> Any:
    """Return what gammainc says, or 1 less it."""
    dtype = np.asarray(x).dtype
    a, x = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(x, np.float64))
    inside = (a > 0.0) & (x > 0.0) & (x < np.inf)
    a, z = np.where(inside, a, 1.0), np.where(inside, x, 1.0)
    small = z < a + 1.0
    jet = np.zeros((order + 1, 1, *a.shape))
    one, root = jet.copy(), np.sqrt(np.max(a, initial=1.0))
    one[0] = 1.0
    scale = jet.copy()
    scale[0, 0] = a * np.log(z) - z
    if order:
        scale[1, 0] = np.log(z)
    # the series, where x < a + 1
    low = np.where(small, z, 0.5 * a)
    term, series = one, one
    for k in range(1, int(50 + 12 * root)):
        shifted = jet.copy()
        shifted[0, 0] = a + k
        if order:
            shifted[1, 0] = 1.0
        term = jet_product(term, jet_reciprocal(shifted)) * low
        series = series + term
    near = jet_product(jet_exp(scale - jet_lgamma(a + 1.0, jet, (0,))), series)[order, 0]
    # the continued fraction, elsewhere
    high = np.where(small, a + 2.0, z)
    fraction = jet.copy()
    for k in range(int(100 + 10 * root), 0, -1):
        below, above = fraction.copy(), jet.copy()
        below[0, 0] += high + 2 * k + 1 - a
        above[0, 0] = k * (a - k)
        if order:
            below[1, 0] -= 1.0
            above[1, 0] = k
        fraction = jet_product(above, jet_reciprocal(below))
    fraction[0, 0] += high + 1.0 - a
    if order:
        fraction[1, 0] -= 1.0
    far = jet_product(jet_exp(scale - jet_lgamma(a, jet, (0,))), jet_reciprocal(fraction))[order, 0]
    if order:
        result = math.factorial(order) * np.where(small, near, -far)
        ends = np.zeros_like(result)
    else:
        result = np.where(small, 1.0 - near, far) if upper else np.where(small, near, 1.0 - far)
        ends = np.where((x > 0.0) != upper, 1.0, 0.0)
    valid = inside | ((a > 0.0) & (x >= 0.0))
    return np.where(inside, result, np.where(valid, ends, np.nan)).astype(dtype)


def betainc(order_a: int, order_b: int, a: Any, b: Any, x: Any) -> Any:
    """Return the derivative of orders >= 0 in a and b of the regularized incomplete beta function.

    Source: NIST Handbook, 8.17.22 (continued fraction), as power series in a and b.
    """
    dtype = np.asarray(x).dtype
    a, b, x = np.broadcast_arrays(*(np.asarray(v, np.float64) for v in (a, b, x)))
    valid = (a > 0.0) & (b > 0.0) & (x >= 0.0) & (x <= 1.0)
    inside = valid & (x > 0.0) & (x < 1.0)
    a, b, z = np.where(inside, a, 1.0), np.where(inside, b, 1.0), np.where(inside, x, 0.5)
    turned = z > (a + 1.0) / (a + b + 2.0)

    def below(order_a: int, order_b: int, a: Any, b: Any, log_x: Any, x: Any, log_y: Any) -> Any:
        jet = np.zeros((order_a + 1, order_b + 1, *a.shape))

        def linear(value: Any, in_a: float, in_b: float) -> Any:
            result = jet.copy()
            result[0, 0] = value
            if order_a:
                result[1, 0] = in_a
            if order_b:
                result[0, 1] = in_b
            return result

        one, fraction = linear(1.0, 0.0, 0.0), linear(1.0, 0.0, 0.0)
        for m in range(int(60 + 6 * np.sqrt(np.max(np.maximum(a, b), initial=1.0))), -1, -1):
            middle = jet_reciprocal(jet_product(linear(a + 2 * m, 1.0, 0.0), linear(a + 2 * m + 1, 1.0, 0.0)))
            odd = jet_product(jet_product(linear(a + m, 1.0, 0.0), linear(a + b + m, 1.0, 1.0)), middle) * -x
            fraction = one + jet_product(odd, jet_reciprocal(fraction))
            if m:
                middle = jet_reciprocal(jet_product(linear(a + 2 * m - 1, 1.0, 0.0), linear(a + 2 * m, 1.0, 0.0)))
                even = jet_product(linear(b - m, 0.0, 1.0), middle) * (m * x)
                fraction = one + jet_product(even, jet_reciprocal(fraction))
        scale = linear(a * log_x + b * log_y, log_x, log_y) + jet_lgamma(a + b, jet, (0, 1))
        scale = scale - jet_lgamma(a + 1.0, jet, (0,)) - jet_lgamma(b, jet, (1,))
        return jet_product(jet_exp(scale), jet_reciprocal(fraction))[order_a, order_b]

    keep = ~turned
    log_x, log_y, half = np.log(z), np.log1p(-z), np.full_like(z, 0.25)
    lower = below(order_a, order_b, a, np.where(keep, b, 1.0), log_x, np.where(keep, z, half), log_y)
    upper = below(order_b, order_a, b, np.where(turned, a, 1.0), log_y, np.where(turned, 1.0 - z, half), log_x)
    if order_a or order_b:
        result = math.factorial(order_a) * math.factorial(order_b) * np.where(turned, -upper, lower)
        ends = np.zeros_like(result)
    else:
        result, ends = np.where(turned, 1.0 - upper, lower), x
    return np.where(inside, result, np.where(valid, ends, np.nan)).astype(dtype)


def pad_between(x: Any, low: Any, high: Any, interior: Any) -> Any:
    """Return x with zeros before, after and between its elements along each axis."""
    sizes = [d + max(d - 1, 0) * i for d, i in zip(x.shape, interior, strict=True)]
    result = np.zeros([a + b + d for a, b, d in zip(low, high, sizes, strict=True)], x.dtype)
    places = zip(low, sizes, interior, strict=True)
    result[tuple(slice(a, a + d, i + 1) for a, d, i in places)] = x
    return result


def set_slice(x: Any, place: Any, values: Any) -> Any:
    """Return a copy of x with x[place] = values."""
    result = np.array(x)
    result[place] = values
    return result


def add_slice(x: Any, place: Any, values: Any) -> Any:
    """Return a copy of x with x[place] += values."""
    result = np.array(x)
    result[place] += values
    return result


def scatter_set(x: Any, indices: Any, values: Any, axes: Any) -> Any:
    """Return a copy of x with the elements at indices along axes set to values; the last one wins."""
    result = np.array(x)
    np.moveaxis(result, axes, range(len(axes)))[indices] = values
    return result


def scatter_add(x: Any, indices: Any, values: Any, axes: Any) -> Any:
    """Return a copy of x with values added to the elements at indices along axes; all of them count."""
    result = np.array(x)
    np.add.at(np.moveaxis(result, axes, range(len(axes))), indices, values)
    return result


def linear_recurrence(a: Any, b: Any, axis: int, reverse: bool) -> Any:
    """Return r with r[k] = a[k] * r[k - 1] + b[k] along an axis; with r[k + 1] when reverse."""
    result = np.array(b)
    r, a = np.moveaxis(result, axis, 0), np.moveaxis(a, axis, 0)
    order = range(len(r) - 2, -1, -1) if reverse else range(1, len(r))
    for k in order:
        r[k] += a[k] * r[k + 1 if reverse else k - 1]
    return result


def triangular_solve(a: Any, b: Any, lower: bool = True, transpose_a: bool = False, unit_diagonal: bool = False) -> Any:
    """Return x with T @ x = b, where T is the lower or upper triangle of a, transposed on demand."""
    triangle = np.tril(a) if lower else np.triu(a)
    if unit_diagonal:
        n = np.arange(a.shape[-1])
        triangle[..., n, n] = 1.0
    return np.linalg.solve(np.swapaxes(triangle, -1, -2) if transpose_a else triangle, b)


def is_positive_definite(a: Any) -> Any:
    """Return whether each matrix of a stack has a Cholesky factor."""
    try:
        np.linalg.cholesky(a)
    except np.linalg.LinAlgError:
        return np.False_ if a.ndim == 2 else np.array([is_positive_definite(matrix) for matrix in a])
    return np.ones(a.shape[:-2], bool)[()]


def cofactor(a: Any) -> Any:
    """Return the matrix of cofactors, det(a) * inv(a).T where the inverse exists, from the singular values."""
    u, s, vh = np.linalg.svd(a)
    before = np.cumprod(np.concatenate([np.ones_like(s[..., :1]), s[..., :-1]], axis=-1), axis=-1)
    after = np.cumprod(np.concatenate([np.ones_like(s[..., :1]), s[..., :0:-1]], axis=-1), axis=-1)[..., ::-1]
    others = (before * after)[..., None, :]
    return (np.linalg.det(u) * np.linalg.det(vh))[..., None, None] * ((np.conj(u) * others) @ np.conj(vh))


def check(condition: Any, error: type[Exception], message: str) -> None:
    """Raise an error unless a condition holds."""
    if not condition:
        raise error(message)
