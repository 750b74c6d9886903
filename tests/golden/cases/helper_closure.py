"""A helper function, and a function that remembers a number from where it was made."""

import numpy as np


def smooth(x, width):
    return x / (1.0 + np.exp(-x / width))


def make(width):
    def f(x):
        return np.sum(smooth(x, width) + smooth(2 * x, width))

    return f


f = make(0.5)
ARGUMENTS = (np.array([-1.0, 0.5, 2.0]),)
HIDDEN = (0.5,)
