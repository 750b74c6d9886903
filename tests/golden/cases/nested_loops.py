"""Nested loops over elements: the lower triangle of pairwise distances."""

import numpy as np


def f(x):
    n = len(x)
    energy = 0.0
    for i in range(n):
        for j in range(i):
            energy += 1.0 / (1.0 + (x[i] - x[j]) ** 2)
    return energy


ARGUMENTS = (np.linspace(0.0, 1.0, 20),)
