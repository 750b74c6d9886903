import numpy as np

import tracegrad as tg


def f(x):
    return np.sum(x)


def run():
    tg.vmap(f, in_axes=2)(np.ones((3, 4)))
