import numpy as np

import tracegrad as tg


@tg.custom_vjp
def square(x):
    return x**2


def backward(x, out, ct):
    return (2 * x * ct,)


square.defvjp(lambda x: (x**2, x), backward)


def f(x):
    return np.sum(square(x))


def run():
    tg.grad(f)(np.ones(3))
