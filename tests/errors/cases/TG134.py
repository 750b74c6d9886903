from collections import deque

import numpy as np

import tracegrad as tg


def f(x):
    large = deque(maxlen=8)
    if x[0] > 0.5:
        large.append(1.0)
    return x.sum() * len(large)


def run():
    tg.grad(f)(np.ones(3))
