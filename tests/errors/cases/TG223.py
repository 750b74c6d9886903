import numpy as np

import tracegrad as tg


def f(x, y):
    return np.sum(x) * y


def run():
    tg.vmap(f)(np.ones((3, 4)), np.ones(2))
