import numpy as np

import tracegrad as tg


def f(x):
    return x[0] * 2.0


def run():
    tg.grad(f)(np.ones(0))
