import numpy as np

import tracegrad as tg


def f(x):
    return np.sum(np.linalg.svd(x)[1])


def run():
    tg.grad(f)(np.eye(3))
