# made for x: f64[2]
import numpy as np


def f_grad(x):
    # branch.py:7  s = np.sum(x)
    s = x.sum()
    # branch.py:8  if s > 0:
    above = s > 0.0
    if above:
        # branch.py:9  y = np.log(s)
        y = np.log(s)
    else:
        # branch.py:11  y = s * s
        y = s * s

    # cotangents, from the result back to the arguments
    # branch.py:12  return y * x[0]
    ct_y = x[0]
    # branch.py:8  if s > 0:
    if above:
        # branch.py:9  y = np.log(s)
        ct_s = ct_y / s
    else:
        # branch.py:11  y = s * s
        ct_s = ct_y * (2.0 * s)
    # branch.py:7  s = np.sum(x)
    ct_x = np.full(2, ct_s)
    ct_x[0] += y
    return ct_x
