import numpy as np

import tracegrad as tg


def measure(x):
    return np.sort(x)


def f(x):
    return np.sum(tg.pure_callback(measure, "f64[4]", x))


def run():
    tg.function(f)(np.ones(3))
