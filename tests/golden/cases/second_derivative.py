"""The derivative of a derivative, through a loop."""

import numpy as np

import tracegrad as tg


def g(x):
    y = x
    for _ in range(5):
        y = np.sin(y) * x
    return y


def f(x):
    return tg.grad(g)(x)


ARGUMENTS = (0.7,)
