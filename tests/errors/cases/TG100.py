import numpy as np

import tracegrad as tg


def f(x):
    return np.sum(np.abs(np.fft.fft(x)))


def run():
    tg.grad(f)(np.ones(4))
