import math

import numpy as np

import tracegrad as tg


def f(x):
    found = []
    for v in x:
        try:
            found += [x * math.log(v)]
        except ValueError:
            found = [x[:1]]
    return np.sum(found[0])


def run():
    tg.grad(f)(np.array([1.5, 2.0, 3.0]))
