import numpy as np

import tracegrad as tg

SCALE = np.array([1.0, 2.0, 3.0])


@tg.custom_jvp
def scaled(x):
    return SCALE * x


@tg.custom_jvp
def twice(x):
    return 2 * x


twice.defjvp(lambda primals, tangents: (2 * primals[0], scaled(primals[0]) * tangents[0]))
scaled.defjvp(lambda primals, tangents: (twice(primals[0]), SCALE * tangents[0]))


def f(x):
    return np.sum(scaled(x))


def run():
    tg.grad(f)(np.ones(3))
