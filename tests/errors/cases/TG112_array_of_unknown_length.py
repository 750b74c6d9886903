import numpy as np

import tracegrad as tg


def f(x):
    large = [v for v in x if v > 0.5]
    values = np.array(large) if large else np.zeros(1)
    return np.sum(values**2)


def run():
    tg.grad(f)(np.ones(4))
