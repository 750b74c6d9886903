# made for x: f64[3]
# after the arguments: width, read from outside at each call
import numpy as np


def f_grad(x, width):
    width = np.float64(width)

    # helper_closure.py:7  return x / (1.0 + np.exp(-x / width))
    exp = np.exp(-x / width)
    total = 1.0 + exp
    quotient = x / total
    # helper_closure.py:12  return np.sum(smooth(x, width) + smooth(2 * x, width))
    product = 2.0 * x
    # helper_closure.py:7  return x / (1.0 + np.exp(-x / width))
    exp_1 = np.exp(-product / width)
    total_1 = 1.0 + exp_1

    # cotangents, from the result back to the arguments
    # helper_closure.py:7  return x / (1.0 + np.exp(-x / width))
    quotient_1 = product / total_1 / total_1 * exp_1 / width
    # helper_closure.py:12  return np.sum(smooth(x, width) + smooth(2 * x, width))
    ct_x = (1.0 / total_1 + quotient_1) * 2.0
    # helper_closure.py:7  return x / (1.0 + np.exp(-x / width))
    ct_x = ct_x + 1.0 / total + quotient / total * exp / width
    return ct_x
