import numpy as np

import tracegrad as tg


@tg.custom_jvp
def square(x):
    return x**2


@square.defjvp
def square_rule(primals, tangents):
    (x,), (t,) = primals, tangents
    slope = np.where(t > 0, 2 * x, 3 * x)
    return square(x), slope * t


def f(x):
    return np.sum(square(x))


def run():
    tg.grad(f)(np.ones(3))
