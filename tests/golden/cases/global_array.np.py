# made for x: f64[3]
# after the arguments: WEIGHTS, read from outside at each call
import numpy as np


def f_grad(x, WEIGHTS):
    # cotangents, from the result back to the arguments
    # global_array.py:9  return np.sum(WEIGHTS * x**3)
    ct_x = WEIGHTS * (3.0 * x ** 2)
    return ct_x
