# made for x: f64[3]
import numpy as np


def f_grad(x):
    # straight_line.py:7  r = np.sqrt(np.sum(x**2))
    r = np.sqrt(np.sum(x ** 2))
    # straight_line.py:8  return np.exp(-r) * np.sin(x[0])
    exp = np.exp(-r)
    x_0 = x[0]

    # cotangents, from the result back to the arguments
    # straight_line.py:7  r = np.sqrt(np.sum(x**2))
    ct_x = -np.sin(x_0) * exp * (0.5 / r) * (2.0 * x)
    ct_x[0] += exp * np.cos(x_0)
    return ct_x
