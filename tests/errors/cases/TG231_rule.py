import numpy as np

import tracegrad as tg


@tg.custom_jvp
def square(x):
    return x**2


square.defjvp(lambda primals, tangents: (np.sum(primals[0] ** 2), tangents[0]))


def f(x):
    return np.sum(square(x))


def run():
    tg.grad(f)(np.ones(3))
