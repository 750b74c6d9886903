import numpy as np

import tracegrad as tg


def f(x):
    return x, {"twice": 2 * x}


def run():
    tg.vmap(f, out_axes=(0, (1, 1)))(np.ones(3))
