import numpy as np
import scipy.stats

import tracegrad as tg


def f(x):
    return np.sum(scipy.stats.rice.logpdf(x, 2.0))


def run():
    tg.grad(f)(np.full(4, 0.5))
