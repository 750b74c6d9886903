import numpy as np

import tracegrad as tg


def f(x):
    gains, losses = {"first": x[0]}, {"first": x[1]}
    chosen = gains if x[0] > 0 else losses
    del chosen["first"]
    return sum(gains.values()) - 2 * sum(losses.values())


def run():
    tg.grad(f)(np.array([1.0, -2.0]))
