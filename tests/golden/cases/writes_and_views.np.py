import numpy as np


def f_grad(x):
    # writes_and_views.py:7  a = x.reshape(3, 4).copy()
    a = x.reshape(3, 4)
    # writes_and_views.py:9  column *= 2.0
    written = a.copy()
    written[:, 1:2] = (a[:, 1:2].reshape(3) * 2.0)[:, None]
    # writes_and_views.py:10  a[0] = np.sin(a[0])
    reshaped = written[:1].reshape(4)
    written = written.copy()
    written[:1] = np.sin(reshaped)
    # writes_and_views.py:11  a[1:, 2] += column[1:]
    part = written[:, 1:2].reshape(3)[1:]
    written[1:, 2:3] = (written[1:, 2:3].reshape(2) + part)[:, None]
    # writes_and_views.py:12  return np.sum(a**2)
    product = 2.0 * written
    # writes_and_views.py:11  a[1:, 2] += column[1:]
    written = product.copy()
    written[1:, 2:3] = 0.0
    part = product[1:, 2:3]
    written[1:, 2:3] += part
    written[:, 1:2] += np.pad(part.reshape(2), (1, 0))[:, None]
    # writes_and_views.py:10  a[0] = np.sin(a[0])
    written_1 = written.copy()
    written_1[:1] = 0.0
    written_1[:1] += written[:1].reshape(4) * np.cos(reshaped)

    # cotangents, from the result back to the arguments
    # writes_and_views.py:9  column *= 2.0
    ct_a = written_1.copy()
    ct_a[:, 1:2] = 0.0
    # writes_and_views.py:8  column = a[:, 1]
    ct_a[:, 1:2] += (written_1[:, 1:2].reshape(3) * 2.0)[:, None]
    # writes_and_views.py:7  a = x.reshape(3, 4).copy()
    ct_x = ct_a.reshape(12)
    return ct_x
