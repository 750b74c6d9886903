import numpy as np

import tracegrad as tg


def entropy(p):
    return -np.sum(p * np.log(p))


def run():
    with np.errstate(all="ignore"):
        tg.testing.check_grads(entropy, np.array([-0.5, 0.5]))
