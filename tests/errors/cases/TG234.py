import numpy as np

import tracegrad as tg


@tg.custom_vjp
def square(x):
    x *= x
    return x


square.defvjp(lambda x: (x**2, x), lambda x, ct: (2 * x * ct,))


def f(x):
    return np.sum(square(x))


def run():
    tg.grad(f)(np.ones(3))
