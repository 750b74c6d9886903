import numpy as np

import tracegrad as tg


def f(x):
    return np.sum(np.arange(int(x)) * x)


def run():
    tg.grad(f)(3.5)
