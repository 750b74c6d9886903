"""Parameters in a dict: the gradient is a dict."""

import numpy as np


def f(params, x, y):
    h = np.tanh(x @ params["w1"] + params["b1"])
    z = h @ params["w2"] + params["b2"]
    return np.mean((z - y) ** 2)


ARGUMENTS = (
    {"w1": np.full((3, 5), 0.1), "b1": np.zeros(5), "w2": np.full(5, 0.2), "b2": 0.0},
    np.arange(24.0).reshape(8, 3),
    np.ones(8),
)
