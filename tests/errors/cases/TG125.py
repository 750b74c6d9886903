import numpy as np

import tracegrad as tg


def f(x):
    return np.sum(np.array([[x, x], [x]]))


def run():
    tg.grad(f)(1.0)
