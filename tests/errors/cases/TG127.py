import math

import tracegrad as tg


def f(z):
    return math.sin(z)


def run():
    tg.function(f)(1.0 + 2.0j)
