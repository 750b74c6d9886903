import numpy as np

import tracegrad as tg


@tg.custom_vjp
def square(x):
    return x**2


square.defvjp(lambda x: x**2, lambda x, ct: (2 * x * ct,))


def f(x):
    return np.sum(square(x))


def run():
    tg.grad(f)(np.ones(3))
