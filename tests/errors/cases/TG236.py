import numpy as np

import tracegrad as tg


def f(x):
    @tg.custom_vjp
    def scaled(y):
        return y * x

    scaled.defvjp(lambda y: (scaled(y), y), lambda y, ct: (ct * x,))
    return np.sum(scaled(2 * x))


def run():
    tg.grad(f)(np.ones(3))
