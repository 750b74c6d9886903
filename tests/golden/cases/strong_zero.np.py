# made for x: f64[3]
import numpy as np


def f_grad(x):
    with np.errstate(divide="ignore", invalid="ignore"):
        # cotangents, from the result back to the arguments
        # strong_zero.py:7  return np.sum(np.where(x > 0, np.sqrt(x), 0.0))
        ct_x = np.where(x > 0.0, 0.5 / np.sqrt(x), 0.0)
        return ct_x
