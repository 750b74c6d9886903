import contextlib

import numpy as np

import tracegrad as tg


def f(a):
    y = a[0, 0]
    with contextlib.suppress(np.linalg.LinAlgError):
        y = np.sum(np.linalg.cholesky(a))
    return y


def run():
    tg.grad(f)(np.eye(2))
