"""Recursion that ends on a Python number: it is written out."""

import numpy as np


def power(x, n):
    if n == 0:
        return np.ones_like(x)
    half = power(x, n // 2)
    return half * half * x if n % 2 else half * half


def f(x):
    return np.sum(power(x, 5))


ARGUMENTS = (np.array([1.0, 2.0]),)
