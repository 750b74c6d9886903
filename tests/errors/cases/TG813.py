import numpy as np

from tracegrad.testing.time_limit import limited


def newton(a):
    x = a
    while abs(x * x - a) > 1e-12:
        x = 0.5 * (x + a / x)
    return x


def run():
    limited(newton, 0.1, ["a"], "--time-limit 60 waits longer")(np.float64(-2.0))
