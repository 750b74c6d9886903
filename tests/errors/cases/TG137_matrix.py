import numpy as np

import tracegrad as tg


def f(a):
    try:
        return np.sum(np.linalg.cholesky(a))
    except np.linalg.LinAlgError:
        return np.inf


def run():
    tg.grad(f)(np.eye(2))
