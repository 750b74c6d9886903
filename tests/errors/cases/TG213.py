import numpy as np

import tracegrad as tg

x = np.ones(3)


def f(weights):
    return np.sum(weights**2)


def run():
    tg.grad(f, x, y=x)
