import numpy as np

import tracegrad as tg


def f(x):
    return np.sum(x * x)


def run():
    tg.function(f).source(np.ones(3, np.float16), backend="c")
