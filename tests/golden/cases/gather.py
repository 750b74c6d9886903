"""Reads and writes at places given by an array of integers."""

import numpy as np


def f(x, index):
    counts = np.zeros(4)
    np.add.at(counts, index, x[index] ** 2)
    counts[index[0]] = 1.0
    return np.sum(np.sqrt(1.0 + counts))


ARGUMENTS = (np.array([1.0, 2.0, 3.0, 4.0]), np.array([3, 0, 3]))
