import numpy as np

import tracegrad as tg


class Params(dict):
    pass


def f(params):
    return np.sum(params["w"])


def run():
    tg.grad(f)(Params(w=np.ones(3)))
