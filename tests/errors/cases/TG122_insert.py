import numpy as np

import tracegrad as tg


def f(x):
    kept = []
    i = 0
    while x[i] > 0:
        kept.insert(0, x[i])
        i += 1
    return kept[0]


def run():
    tg.grad(f)(np.ones(3))
