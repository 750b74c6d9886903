"""The surface of NumPy: masks, indexing, writes, views, reductions, sorting, shapes, single precision."""

import math

import numpy as np

from tests.zoo.registry import program


@program(lambda rng: (rng.normal(size=10),))
def piecewise_by_where(x):
    y = np.where(x > 0, np.log(np.where(x > 0, x, 1.0)), -(x**2))
    return np.sum(np.clip(y, -0.9, 0.7) + np.clip(x, None, 1.1))


@program(lambda rng: (rng.normal(size=9),))
def piecewise_by_select(x):
    return np.select([x < -0.5, x < 0.5], [x**2, np.sin(x)], default=2 * x)


@program(lambda rng: (rng.normal(size=(3, 4)),))
def mask_assignment(x):
    y = x * 2
    y[y < 0] = 0.0
    y[x > 0.8] *= 3
    y[0, x[0] < 0] = -1.5
    return y


@program(lambda rng: (rng.normal(size=10), rng.normal(size=3)), wrt=(0, 1))
def fancy_indexing(x, w):
    picked = x[[1, 4, 4]]
    y = x.copy()
    y[[0, 3, 7]] = w * picked
    y[np.array([2, 5])] += picked[:2]
    return y[::-1] @ np.arange(10.0)


@program(lambda rng: (rng.normal(size=8), np.array([0, 1, 1, 3, 0, 2, 3, 3])))
def group_sums_by_add_at(values, groups):
    sums, counts = np.zeros(4), np.zeros(4)
    np.add.at(sums, groups, values)
    np.add.at(counts, groups, 1.0)
    means = sums / counts
    return np.sum((values - means[groups]) ** 2)


@program(lambda rng: (rng.normal(size=6), rng.normal(size=6)), wrt=(0, 1))
def results_into_out(a, b):
    buffer = np.empty(6)
    np.multiply(a, b, out=buffer)
    np.exp(buffer, out=buffer)
    np.add(buffer, a, out=buffer)
    return buffer.sum()


@program(lambda rng: (rng.normal(size=(4, 3)),))
def views_and_writes(x):
    y = x.copy()
    row = y[1]
    row[:] = row * 2 + y[0]
    column = y[:, -1]
    column -= y[:, 0]
    y[::2, ::-1] += y[1::2, :]
    flat = y.reshape(-1)
    flat[3] = flat[5] ** 2
    return y


@program(lambda rng: (rng.normal(size=7),))
def negative_steps(x):
    y = x[::-1].copy()
    y[::2] = x[5:1:-1]
    return y[-2::-2] @ x[:3] + y.sum()


@program(lambda rng: (rng.uniform(0.5, 1.5, (3, 4)),))
def cumulative(x):
    return np.sum(np.cumsum(x, axis=1) ** 2) + np.sum(np.cumprod(x, axis=0)[-1]) + np.cumsum(x)[-2]


@program(lambda rng: (rng.permutation(8) + 0.2 * rng.random(8), rng.normal(size=8)), wrt=(0, 1))
def order_statistics(x, y):
    order = np.argsort(x)
    best = np.argmax(x)
    ranked = np.sort(x)
    return ranked[-1] - ranked[0] + y[order] @ np.arange(8.0) + y[best] ** 2 + x[np.argmin(y)]


@program(lambda rng: (rng.normal(size=(4, 3)),))
def norms_and_moments(x):
    return (
        np.linalg.norm(x)
        + np.linalg.norm(x[:, 0], 1)
        + np.linalg.norm(x, axis=1).sum()
        + x.std()
        + np.var(x, axis=0, ddof=1).sum()
        + np.max(x, axis=0).prod()
        + x.min()
    )


@program(lambda rng: (rng.normal(size=(2, 3)),))
def reshaping(x):
    a = np.concatenate([x, 2 * x], axis=0)
    b = np.stack([x.T, x.T**2]).swapaxes(0, 2)
    c = np.hstack([x, x[:, :1]]).ravel()
    d = np.moveaxis(x[None], 0, -1).squeeze()
    e = np.expand_dims(x, 1) * np.broadcast_to(x[0], (2, 2, 3))
    return a.sum() + np.sum(b**2) + c[2:5].prod() + d[0] @ d[1] + np.sum(e)


@program(lambda rng: (rng.normal(size=5),))
def pad_roll_flip_tile_repeat(x):
    p = np.pad(x, (2, 1))
    r = np.roll(p, 3)
    t = np.tile(x, 2)[1:9]
    f = np.flip(np.repeat(x[:4], 2))
    return r * p @ np.ones(8) + t @ f


@program(lambda rng: (rng.normal(size=(4, 4)),))
def diagonals_and_triangles(A):
    return np.trace(A) + np.sum(np.tril(A, -1) ** 2) + np.prod(np.diag(A, 1)) + np.sum(np.diag(A[0]) @ A)


@program(lambda rng: (rng.normal(size=12),))
def splits(x):
    a, b, c = np.split(x, 3)
    head, tail = np.array_split(x, [5])
    return a @ b + np.sum(c**2) + head.sum() * tail[-1] + np.diff(x, n=2) @ x[2:]


@program(lambda rng: (rng.normal(size=3), rng.normal(size=3)), wrt=(0, 1))
def products(a, b):
    return np.outer(a, b).sum() + np.inner(a, b) + np.dot(a, b) ** 2 + np.cross(a, b) @ (a * 2 - b**2) + np.vdot(a, b)


@program(lambda rng: (rng.uniform(0.2, 0.8, 6),))
def many_ufuncs(x):
    return np.sum(
        np.arcsin(x)
        + np.arccos(x)
        + np.arctan(x)
        + np.sinh(x)
        + np.cosh(x)
        + np.arcsinh(x)
        + np.arctanh(x)
        + np.exp2(x)
        + np.log2(x)
        + np.log10(x)
        + np.cbrt(x)
        + np.square(x)
        + np.reciprocal(x)
        + np.tan(x)
        + np.arctan2(x, 1 - x)
        + np.hypot(x, 2.0)
        + np.logaddexp(x, -x)
        + np.fabs(x)
        + np.sign(x)
        + np.deg2rad(x)
        + np.power(2.0, x)
        + np.float_power(x, 1.5)
        + np.fmax(x, 0.1)
        + np.sinc(x)
    )


@program(lambda rng: (0.4, 1.7), wrt=(0, 1))
def math_module(x, y):
    return (
        math.sin(x) * math.cos(y)
        + math.tan(x)
        + math.asin(x)
        + math.atan2(x, y)
        + math.sinh(x)
        + math.acosh(y)
        + math.log(y, 2)
        + math.log1p(x)
        + math.expm1(x)
        + math.pow(x, y)
        + math.hypot(x, y)
        + math.erf(x)
        + math.erfc(y)
        + math.lgamma(y)
        + math.gamma(y)
        + math.fabs(-x)
        + math.sqrt(x)
        + math.floor(y)
        + math.degrees(x)
        + math.copysign(x, -y)
        + math.fmod(y, 0.7)
        + math.prod([x, y, 2.0])
        + math.dist([x, y], [0.0, 1.0])
        + math.fsum([x, y])
    )


@program(lambda rng: (rng.normal(size=(3, 3)).astype(np.float32), np.float32(0.7)), wrt=(0, 1), rtol=2e-5)
def float32_recursion(W, gain):
    h = np.full(3, 0.5, dtype=W.dtype)
    for _ in range(4):
        h = np.tanh(gain * (W @ h))
    return h.sum()


@program(lambda rng: (rng.normal(size=6).astype(np.float32),), rtol=2e-5)
def float32_reductions(x):
    y = (x - x.mean()) / x.std()
    y[y > 1] = 1
    return (y**2).sum() / 2 + np.log(np.exp(x).sum())


@program(lambda rng: (np.array(0.7), rng.normal(size=4)), wrt=(0, 1))
def zero_dimensional(t, x):
    total = t.copy()
    for v in x:
        total += t * v
    return total + float(t) ** 2 + x.sum().item()


@program(lambda rng: (rng.normal(size=(3, 4)), rng.normal(size=4)), wrt=(0, 1))
def meshes(z, x):
    X, Y = np.meshgrid(x, np.linspace(0, 1, 3))
    area = np.sum(0.5 * (z[1:] + z[:-1]) * np.diff(Y, axis=0))
    return area + np.sum(X * Y * z)


@program(lambda rng: (np.sort(rng.random(5)), rng.normal(size=5), 0.5 * rng.random(3) + 0.3), wrt=(1,))
def linear_interpolation(xs, ys, queries):
    total = 0.0
    for q in queries:
        k = 0
        while k < len(xs) - 2 and xs[k + 1] < q:
            k += 1
        w = (q - xs[k]) / (xs[k + 1] - xs[k])
        total += (1 - w) * ys[k] + w * ys[k + 1]
    return total


@program(lambda rng: (rng.normal(size=(5, 3)),))
def rows_by_loop_over_array(x):
    total = np.zeros(3)
    largest = x[0]
    for row in x:
        total += row * np.abs(row).max()
        largest = np.maximum(largest, row)
    return np.concatenate([total, largest])


@program(lambda rng: (rng.normal(size=(3, 4)), np.array([2, 0, 1])))
def take_along_rows(x, columns):
    chosen = np.take(x, [3, 1], axis=1)
    along = np.take_along_axis(x, columns[:, None], axis=1)
    return np.sum(chosen**2) + along.sum() + x[..., 1] @ x[np.arange(3), columns]


@program(lambda rng: (rng.normal(size=5), rng.normal(size=5)), wrt=(0, 1))
def branch_on_a_reduction(x, y):
    if np.all(x > -10) and np.any(y > 0):
        z = x * y
    else:
        z = x + y
    if z.sum() > 100:
        z = z / z.sum()
    return z.max() - z.min() + np.count_nonzero(x > 0) * y[0]


@program(lambda rng: (rng.normal(size=4),))
def counts_and_integers(x, n=5):
    weights = np.ones(4, dtype=int)
    for k in range(n):
        weights[k % 4] += k
    hits = 0
    for v in x:
        if v > 0:
            hits += 1
    return np.sum(weights * x) / (1 + hits)
