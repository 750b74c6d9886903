"""Writes in place, one of them through a view."""

import numpy as np


def f(x):
    a = x.reshape(3, 4).copy()
    column = a[:, 1]
    column *= 2.0
    a[0] = np.sin(a[0])
    a[1:, 2] += column[1:]
    return np.sum(a**2)


ARGUMENTS = (np.linspace(0.0, 1.0, 12),)
