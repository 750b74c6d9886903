import numpy as np

import tracegrad as tg


def wave(x):
    return np.exp(1j * x)


def f(x):
    return np.sum(np.real(tg.pure_callback(wave, "c128[3]", x, rule="complex-step")))


def run():
    tg.grad(f)(np.ones(3))
