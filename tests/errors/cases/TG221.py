import numpy as np

import tracegrad as tg


def f(x):
    return x * x


def run():
    tg.vmap(f, in_axes=(None,))(np.ones(3))
