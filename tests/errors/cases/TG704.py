import numpy as np

import tracegrad as tg


def f(x, y):
    x[0] = 2.0 * y[0]
    return np.sum(x)


def run():
    x = np.ones(3)
    tg.grad(f)(x, x[:2])
