import numpy as np

from tracegrad.cli import readable_failures
from tracegrad.target import bind_inputs


def loss(x):
    return [1.0, 2.0][int(x) + 5]


def run():
    inputs = bind_inputs(loss, {"x": 1.0})
    with readable_failures(loss, inputs):
        loss(np.float64(1.0))
