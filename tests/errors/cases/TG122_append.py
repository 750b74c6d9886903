import numpy as np

import tracegrad as tg


def f(x):
    steps = []
    while np.sum(x) > 1e-3:
        steps.append(x)
        x = x / 2
    return np.sum(steps)


def run():
    tg.grad(f)(np.ones(3))
