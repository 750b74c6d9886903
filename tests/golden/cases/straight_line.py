"""Straight-line code on a vector."""

import numpy as np


def f(x):
    r = np.sqrt(np.sum(x**2))
    return np.exp(-r) * np.sin(x[0])


ARGUMENTS = (np.array([0.5, 1.0, 2.0]),)
