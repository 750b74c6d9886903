import numpy as np


def f_grad(x, index):
    # gather.py:8  np.add.at(counts, index, x[index] ** 2)
    item = x[index]
    written = np.zeros(4)
    np.add.at(written, index, item ** 2)
    # gather.py:9  counts[index[0]] = 1.0
    reshaped = index[0]
    written[reshaped] = 1.0
    written = 0.5 / np.sqrt(1.0 + written)
    written[reshaped] = 0.0

    # cotangents, from the result back to the arguments
    # gather.py:8  np.add.at(counts, index, x[index] ** 2)
    ct_x = np.zeros(4)
    np.add.at(ct_x, index, written[index] * (2.0 * item))
    return ct_x
