import numpy as np

import tracegrad as tg


def f(x, y):
    return x * y


def run():
    tg.vmap(f, in_axes=(0,))(np.ones(3), np.ones(3))
