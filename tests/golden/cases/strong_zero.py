"""A pole on the side of np.where that is not taken adds nothing."""

import numpy as np


def f(x):
    return np.sum(np.where(x > 0, x * np.log(x), 0.0))


ARGUMENTS = (np.array([0.0, 1.0, 2.0]),)
