import numpy as np

import tracegrad as tg


def f(x):
    kept = []
    if x[0] > 0:
        kept.append(x[0])
    return np.sum(np.array(kept))


def run():
    tg.grad(f)(np.ones(3))
