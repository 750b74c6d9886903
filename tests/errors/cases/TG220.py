import numpy as np

import tracegrad as tg


def f(params, x):
    return params["w"] * x + params["b"]


def run():
    tg.vmap(f, in_axes=({"w": 0}, 0))({"w": np.ones(3), "b": 1.0}, np.ones(3))
