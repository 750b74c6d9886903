"""A branch on a value known at run time."""

import numpy as np


def f(x):
    s = np.sum(x)
    if s > 0:
        y = np.log(s)
    else:
        y = s * s
    return y * x[0]


ARGUMENTS = (np.array([1.0, 2.0]),)
