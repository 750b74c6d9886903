"""Iterations that stop when they are done: roots, fixed points, series, quadrature and inner optimisation."""

import math

import numpy as np

from tests.zoo.registry import program


@program(lambda rng: (7.3,))
def babylonian_sqrt(a):
    x = a
    while abs(x * x - a) > 1e-13 * a:
        x = 0.5 * (x + a / x)
    return x


@program(lambda rng: (0.7, 0.4), wrt=(0, 1))
def kepler_newton(mean_anomaly, eccentricity):
    E = mean_anomaly
    delta = 1.0
    while abs(delta) > 1e-14:
        delta = (E - eccentricity * math.sin(E) - mean_anomaly) / (1 - eccentricity * math.cos(E))
        E = E - delta
    return E


@program(lambda rng: (2.0, 5.0), wrt=(0, 1), rtol=1e-6)
def bisect_then_polish(a, b):
    """Root of x^3 + a x = b: bracketed by bisection, then one Newton step."""
    lo, hi = 0.0, 3.0
    while hi - lo > 1e-9:
        mid = (lo + hi) / 2
        if mid**3 + a * mid > b:
            hi = mid
        else:
            lo = mid
    x = (lo + hi) / 2
    return x - (x**3 + a * x - b) / (3 * x**2 + a)


@program(lambda rng: (1.7,))
def secant_root(c):
    def f(x):
        return math.exp(x) - x - 1 - c

    x0, x1 = 1.0, 1.5
    f0, f1 = f(x0), f(x1)
    for _ in range(50):
        if abs(x1 - x0) < 1e-13 or f1 == f0:
            break
        x0, x1 = x1, x1 - f1 * (x1 - x0) / (f1 - f0)
        f0, f1 = f1, f(x1)
    return x1


@program(lambda rng: (1.2, 1e5, 0.15), wrt=(0, 2))
def colebrook_head_loss(velocity, reynolds, roughness_mm):
    """Darcy friction factor by fixed point, then the head loss of 100 m of pipe."""
    roughness = roughness_mm * 1e-3 / 0.1
    f = 0.02
    while True:
        f_new = (-2 * math.log10(roughness / 3.7 + 2.51 / (reynolds * math.sqrt(f)))) ** -2
        if abs(f_new - f) < 1e-15:
            break
        f = f_new
    return f_new * 100 / 0.1 * velocity**2 / (2 * 9.81)


@program(lambda rng: (10.0, 3), wrt=0)
def halley_root(a, n):
    x = 1.0 + (a - 1.0) / n
    while True:
        f = x**n - a
        df = n * x ** (n - 1)
        ddf = n * (n - 1) * x ** (n - 2)
        step = 2 * f * df / (2 * df**2 - f * ddf)
        x -= step
        if abs(step) < 1e-13:
            return x


@program(lambda rng: (np.diag([3.0, 1.0, 0.5]) + 0.2 * np.ones((3, 3)) + 0.05 * rng.normal(size=(3, 3)),))
def dominant_eigenvalue(A):
    v = np.ones(A.shape[0])
    value, previous = 0.0, 1.0
    while abs(value - previous) > 1e-14:
        previous = value
        w = A @ v
        v = w / np.linalg.norm(w)
        value = v @ A @ v
    return value


@program(lambda rng: (0.15, rng.normal(size=(6, 3)), rng.normal(size=6)), wrt=(0, 2))
def unrolled_gradient_descent(learning_rate, X, y, steps=12):
    w = np.zeros(X.shape[1])
    for _ in range(steps):
        w = w - learning_rate * X.T @ (X @ w - y) / len(y)
    return np.mean((X @ w - y) ** 2)


@program(lambda rng: (np.diag([3.0, 3.5, 4.2, 5.0]) + 0.3, rng.normal(size=4)), wrt=(0, 1))
def conjugate_gradient(A, b):
    x = np.zeros_like(b)
    r = b - A @ x
    p = r
    rr = r @ r
    for _ in range(len(b)):
        if rr < 1e-20:
            break
        Ap = A @ p
        alpha = rr / (p @ Ap)
        x = x + alpha * p
        r = r - alpha * Ap
        rr_new = r @ r
        p = r + rr_new / rr * p
        rr = rr_new
    return x


@program(lambda rng: (np.eye(4) * 4 + 0.5 * rng.normal(size=(4, 4)), rng.normal(size=4)), wrt=(0, 1))
def gauss_seidel(A, b, sweeps=8):
    n = len(b)
    x = np.zeros(n)
    for _ in range(sweeps):
        for i in range(n):
            s = b[i]
            for j in range(n):
                if j != i:
                    s = s - A[i, j] * x[j]
            x[i] = s / A[i, i]
    return x


@program(lambda rng: (np.array([1.2, 0.7]),), rtol=1e-6)
def newton_system(p):
    """Intersect a circle of radius p[0] with the curve y = p[1] exp(x) - 1."""
    z = np.array([0.5, 0.5])
    while True:
        x, y = z
        F = np.array([x**2 + y**2 - p[0] ** 2, y - p[1] * np.exp(x) + 1])
        J = np.array([[2 * x, 2 * y], [-p[1] * np.exp(x), 1.0]])
        dz = np.linalg.solve(J, F)
        z = z - dz
        if np.linalg.norm(dz) < 1e-12:
            break
    return z


@program(lambda rng: (2.5,))
def lambert_w(x):
    w = math.log(1 + x)
    for _ in range(30):
        e = math.exp(w)
        change = (w * e - x) / (e * (w + 1))
        w -= change
        if abs(change) < 1e-15:
            break
    return w


@program(lambda rng: (1.0, 3.7), wrt=(0, 1))
def arithmetic_geometric_mean(a, g):
    while abs(a - g) > 1e-14:
        a, g = (a + g) / 2, math.sqrt(a * g)
    return a


@program(lambda rng: (1.7,))
def exp_by_series(x):
    total, term, k = 1.0, 1.0, 1
    while True:
        term = term * x / k
        total = total + term
        if abs(term) < 1e-17:
            break
        k += 1
    return total


@program(lambda rng: (0.8,))
def arctan_by_continued_fraction(x, depth=25):
    tail = 0.0
    for k in range(depth, 0, -1):
        tail = (k * x) ** 2 / (2 * k + 1 + tail)
    return x / (1 + tail)


@program(lambda rng: (0.5, 2.0, 1.3), wrt=(0, 1, 2))
def simpson_integral(a, b, k, n=10):
    def f(x):
        return math.sin(k * x) * math.exp(-x)

    h = (b - a) / n
    total = f(a) + f(b)
    for i in range(1, n):
        total += f(a + i * h) * (4 if i % 2 else 2)
    return total * h / 3


@program(lambda rng: (1.4,))
def romberg(upper, levels=5):
    def f(x):
        return np.exp(-(x**2))

    R = np.zeros((levels, levels))
    h = upper
    R[0, 0] = 0.5 * h * (f(0.0) + f(upper))
    for i in range(1, levels):
        h /= 2
        s = 0.0
        for k in range(1, 2**i, 2):
            s += f(k * h)
        R[i, 0] = 0.5 * R[i - 1, 0] + h * s
        for j in range(1, i + 1):
            R[i, j] = R[i, j - 1] + (R[i, j - 1] - R[i - 1, j - 1]) / (4**j - 1)
    return R[-1, -1]


NODES, WEIGHTS = np.polynomial.legendre.leggauss(6)


@program(lambda rng: (np.array([0.5, -0.3, 0.2]), 1.5), wrt=(0, 1))
def gauss_legendre(coef, b):
    x = 0.5 * b * (NODES + 1)
    return 0.5 * b * np.sum(WEIGHTS * np.exp(coef[0] * x + coef[1] * x**2) * np.cos(coef[2] * x))


@program(lambda rng: (rng.random((4, 5)), np.ones(4) / 4, np.ones(5) / 5), wrt=(0,))
def sinkhorn_cost(cost, a, b, eps=0.3, iterations=15):
    K = np.exp(-cost / eps)
    v = np.ones_like(b)
    for _ in range(iterations):
        u = a / (K @ v)
        v = b / (K.T @ u)
    plan = u[:, None] * K * v
    return np.sum(plan * cost)


@program(lambda rng: (0.85, rng.random((4, 4)) + 0.1), wrt=(0, 1), rtol=1e-6)
def page_rank(damping, links):
    P = links / links.sum(axis=0)
    n = P.shape[0]
    rank = np.full(n, 1 / n)
    change = 1.0
    while change > 1e-13:
        new = damping * P @ rank + (1 - damping) / n
        change = np.abs(new - rank).sum()
        rank = new
    return rank


@program(lambda rng: (np.array([-1.2, 1.0]), 1.9), wrt=(0, 1), rtol=1e-6)
def backtracking_descent(x, curvature, iterations=2):
    """Steepest descent with Armijo's rule: a while loop inside a for loop."""

    def f(x):
        return (1 - x[0]) ** 2 + curvature * (x[1] - x[0] ** 2) ** 2

    def gradient(x):
        inner = x[1] - x[0] ** 2
        return np.array([-2 * (1 - x[0]) - 4 * curvature * inner * x[0], 2 * curvature * inner])

    for _ in range(iterations):
        g = gradient(x)
        t = 1.0
        while f(x - t * g) > f(x) - 0.3 * t * (g @ g):
            t *= 0.5
        x = x - t * g
    return f(x)


@program(lambda rng: (0.3, 3.4), wrt=(0, 1))
def logistic_map(x, r):
    count = 0
    while count < 5:
        x = r * x * (1 - x)
        count += 1
    return x


@program(lambda rng: (3.0, 17), wrt=0)
def collatz_weighted(weight, n):
    """The path depends on the integer alone; the value on both."""
    total = 0.0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
            total = total + weight
        else:
            n = 3 * n + 1
            total = total * 0.9 + weight**2
    return total


@program(lambda rng: (np.array([2.0, 3.0, 0.5]), 1.1), wrt=(0, 1))
def equilibrium_concentration(k, total):
    """Mass balance x + k0 x^2 + k1 x^3 / (1 + k2 x) = total, by damped Newton."""
    x = 0.5 * total
    for _ in range(100):
        balance = x + k[0] * x**2 + k[1] * x**3 / (1 + k[2] * x) - total
        slope = 1 + 2 * k[0] * x + k[1] * (3 * x**2 + 2 * k[2] * x**3) / (1 + k[2] * x) ** 2
        new = x - balance / slope
        if new <= 0:
            new = x / 2
        if abs(new - x) < 1e-14:
            x = new
            break
        x = new
    return x


@program(lambda rng: (1.3,), rtol=1e-6)
def bessel_j0(x):
    term, total, k = 1.0, 1.0, 0
    while abs(term) > 1e-17:
        k = k + 1
        term *= -(x * x) / (4.0 * k * k)
        total += term
    return total
