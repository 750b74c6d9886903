import numpy as np

import tracegrad as tg

STEPS = []


def f(x):
    while np.sum(x) > 1e-3:
        STEPS.append(x)
        x = x / 2
    return np.sum(x)


def run():
    tg.grad(f)(np.ones(3))
