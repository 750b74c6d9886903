import numpy as np

import tracegrad as tg


def f(x):
    return np.sum(x)


def run():
    tg.grad(f)(np.ma.masked_array([1.0, 2.0], [False, True]))
