import numpy as np

import tracegrad as tg


def measure(x):
    return np.sort(x)


def f(x):
    return np.sum(tg.pure_callback(measure, "f64[3]", x, rule="guess"))


def run():
    tg.grad(f)(np.ones(3))
