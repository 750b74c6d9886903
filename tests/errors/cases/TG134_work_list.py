import numpy as np

import tracegrad as tg


def f(x):
    work = [v for v in x if v > 0]
    total = 0.0
    for v in work:
        if v > 1:
            work.append(v / 2)
        total += v
    return total


def run():
    tg.grad(f)(np.ones(3))
