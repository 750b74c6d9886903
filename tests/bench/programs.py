"""What is timed: functions as a user writes them, and hand-written NumPy gradients of the small ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def lorenz_rhs(s, p):
    return np.array([p[0] * (s[1] - s[0]), s[0] * (p[1] - s[2]) - s[1], s[0] * s[1] - p[2] * s[2]])


def lorenz_endpoint(s, p):
    dt = 0.005
    for _ in range(1000):
        k1 = lorenz_rhs(s, p)
        k2 = lorenz_rhs(s + 0.5 * dt * k1, p)
        k3 = lorenz_rhs(s + 0.5 * dt * k2, p)
        k4 = lorenz_rhs(s + dt * k3, p)
        s = s + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    return np.sum(s)


def chain(x):
    return np.mean(np.log1p(np.exp(-x)) * np.tanh(x) + np.sin(x))


def layer_loss(w, b, x, y):
    z = np.tanh(x @ w + b)
    return np.mean((z - y) ** 2)


def layer_gradient_by_hand(w, b, x, y):
    z = np.tanh(x @ w + b)
    ct_z = 2.0 / z.size * (z - y)
    ct_a = ct_z * (1.0 - z**2)
    return x.T @ ct_a, ct_a.sum(axis=0)


def reprojection(z, feature):
    """The error of one observation of bundle adjustment; z: rotation, centre, focal length, principal point, radial
    distortion, point, weight."""
    r, centre, focal, shift, distortion, point, weight = z[:3], z[3:6], z[6], z[7:9], z[9:11], z[11:14], z[14]
    d = point - centre
    square = r @ r
    if square != 0.0:
        angle = np.sqrt(square)
        axis = r / angle
        cosine, sine = np.cos(angle), np.sin(angle)
        y = d * cosine + np.cross(axis, d) * sine + axis * (axis @ d) * (1.0 - cosine)
    else:
        y = d + np.cross(r, d)
    e = y[:2] / y[2]
    rho = e @ e
    radial = 1.0 + distortion[0] * rho + distortion[1] * rho * rho
    return weight * (focal * radial * e + shift - feature)


def make_loop(steps: int) -> Callable[[Array], Any]:
    """Return a function whose loop has the given number of steps."""

    def relax(x):
        y = x
        for _ in range(steps):
            y = y + 0.001 * (np.sin(y) - y * x)
        return np.sum(y)

    return relax


LAYER_INPUTS = tuple(np.random.default_rng(3).normal(size=shape) for shape in ((3, 4), (4,), (8, 3), (8, 4)))
LORENZ_INPUTS = (np.array([1.0, 2.0, 20.0]), np.array([10.0, 28.0, 8.0 / 3.0]))


def bundle(observations: int) -> tuple[Array, Array]:
    """Return parameters and features of observations near the example of GradBench."""
    rng = np.random.default_rng(4)
    example = np.array([0.1, -0.2, 0.3, 0.5, -0.25, -4.0, 100.0, 3.0, -2.0, 0.05, 0.01, 1.0, 0.5, 2.0, 0.8])
    z = example * rng.uniform(0.9, 1.1, (observations, 15))
    return z, np.array([20.0, 10.0]) + rng.normal(size=(observations, 2))
