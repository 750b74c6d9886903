# made for scale: float, row: f64[3], x: f64[4,3]
import numpy as np


def f_grad(scale, row, x):
    scale = np.float64(scale)

    # broadcasting.py:7  centred = (x - row) / scale
    centred = (x - row) / scale

    # cotangents, from the result back to the arguments
    # broadcasting.py:8  return np.sum(np.log1p(centred**2))
    ct_centred = 2.0 * centred / (1.0 + centred ** 2)
    # broadcasting.py:7  centred = (x - row) / scale
    ct_scale = -np.sum(ct_centred * (centred / scale))
    ct_row = -np.sum(ct_centred / scale, axis=0)
    return ct_scale, ct_row
