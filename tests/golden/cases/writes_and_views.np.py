# made for x: f64[12]
import numpy as np


def f_grad(x):
    # writes_and_views.py:7  a = x.reshape(3, 4).copy()
    a = x.reshape(3, 4)
    # writes_and_views.py:9  column *= 2.0
    a = a.copy()
    a[:, 1:2] *= 2.0
    # writes_and_views.py:10  a[0] = np.sin(a[0])
    part = a[:1].copy()
    a[:1] = np.sin(part)
    # writes_and_views.py:11  a[1:, 2] += column[1:]
    column = a[:, 1]
    a[1:, 2:3] = (a[1:, 2] + column[1:])[:, None]

    # cotangents, from the result back to the arguments
    # writes_and_views.py:12  return np.sum(a**2)
    ct_a = 2.0 * a
    # writes_and_views.py:11  a[1:, 2] += column[1:]
    ct_column = np.pad(ct_a[1:, 2], (1, 0))
    ct_a[:, 1:2] += ct_column[:, None]
    # writes_and_views.py:10  a[0] = np.sin(a[0])
    ct_a[:1] *= np.cos(part)
    # writes_and_views.py:8  column = a[:, 1]
    ct_a[:, 1:2] *= 2.0
    # writes_and_views.py:7  a = x.reshape(3, 4).copy()
    ct_x = ct_a.reshape(12)
    return ct_x
