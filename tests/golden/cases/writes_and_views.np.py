import numpy as np


def f_grad(x):
    # writes_and_views.py:7  a = x.reshape(3, 4).copy()
    a = x.reshape(3, 4)
    # writes_and_views.py:9  column *= 2.0
    written = a.copy()
    written[:, 1:2] = (a[:, 1] * 2.0)[:, None]
    # writes_and_views.py:10  a[0] = np.sin(a[0])
    reshaped = written[0]
    written = written.copy()
    written[:1] = np.sin(reshaped)
    # writes_and_views.py:11  a[1:, 2] += column[1:]
    total = written[1:, 2] + written[:, 1][1:]
    written[1:, 2:3] = total[:, None]
    # writes_and_views.py:12  return np.sum(a**2)
    ct_a = 2.0 * written
    # writes_and_views.py:11  a[1:, 2] += column[1:]
    part = ct_a[1:, 2:3].copy()
    ct_a[1:, 2:3] = 0.0
    ct_a[1:, 2:3] += part
    ct_a[:, 1:2] += np.pad(part[:, 0], (1, 0))[:, None]
    # writes_and_views.py:10  a[0] = np.sin(a[0])
    part = ct_a[:1].copy()
    ct_a[:1] = 0.0
    ct_a[:1] += part[0] * np.cos(reshaped)
    # writes_and_views.py:9  column *= 2.0
    part = ct_a[:, 1:2].copy()

    # cotangents, from the result back to the arguments
    # writes_and_views.py:9  column *= 2.0
    ct_a[:, 1:2] = 0.0
    # writes_and_views.py:8  column = a[:, 1]
    ct_a[:, 1:2] += (part[:, 0] * 2.0)[:, None]
    # writes_and_views.py:7  a = x.reshape(3, 4).copy()
    ct_x = ct_a.reshape(12)
    return ct_x
