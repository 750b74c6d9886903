import numpy as np

import tracegrad as tg

TEXT = "def f(x): return x[0] if x[0] > 0 else x[1]"


def run():
    names = {}
    exec(TEXT, names)
    tg.grad(names["f"])(np.ones(3))
