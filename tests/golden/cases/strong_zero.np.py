import numpy as np


def f_grad(x):
    # strong_zero.py:7  return np.sum(np.where(x > 0, x * np.log(x), 0.0))
    log_x = np.log(x)
    choice = np.where(x > 0.0, 1.0, 0.0)
    both = (choice == 0.0) & ~np.isfinite(log_x)

    # cotangents, from the result back to the arguments
    # strong_zero.py:7  return np.sum(np.where(x > 0, x * np.log(x), 0.0))
    ct_x = choice * np.where(both, 0.0, log_x)
    product = choice * np.where((choice == 0.0) & ~np.isfinite(x), 0.0, x)
    reciprocal_x = 1.0 / x
    both = (product == 0.0) & ~np.isfinite(reciprocal_x)
    ct_x = ct_x + product * np.where(both, 0.0, reciprocal_x)
    return ct_x
