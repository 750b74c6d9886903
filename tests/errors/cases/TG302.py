import numpy as np

import tracegrad as tg


def f(a):
    return np.sum(np.linalg.cholesky(a))


def run():
    tg.function(f)(np.eye(3, dtype=np.float16))
