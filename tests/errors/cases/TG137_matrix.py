import contextlib

import numpy as np

import tracegrad as tg


def f(a):
    ignored = contextlib.suppress(np.linalg.LinAlgError)
    with ignored:
        return np.sum(np.linalg.cholesky(a))
    return a[0, 0]


def run():
    tg.grad(f)(np.eye(2))
