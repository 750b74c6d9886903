import numpy as np


def f_grad(x):
    with np.errstate(divide="ignore", invalid="ignore"):
        # strong_zero.py:7  return np.sum(np.where(x > 0, np.sqrt(x), 0.0))
        choice = np.where(x > 0.0, 1.0, 0.0)
        quotient = 0.5 / np.sqrt(x)
        both = (choice == 0.0) & ~np.isfinite(quotient)

        # cotangents, from the result back to the arguments
        # strong_zero.py:7  return np.sum(np.where(x > 0, np.sqrt(x), 0.0))
        ct_x = choice * np.where(both, 0.0, quotient)
        return ct_x
