import numpy as np

import tracegrad as tg


def f(params, x):
    return np.sum(params * x)


def run():
    tg.grad(f, argnums="param")(np.ones(3), np.ones(3))
