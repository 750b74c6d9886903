import numpy as np

import tracegrad as tg


def f(x):
    v = x.reshape(-1)
    v[0] = 5.0
    return np.sum(x**2)


def run():
    tg.grad(f)(np.asfortranarray(np.ones((2, 3))))
