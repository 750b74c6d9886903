# made for x: f64[4], index: i64[3]
import numpy as np


def f_grad(x, index):
    # gather.py:8  np.add.at(counts, index, x[index] ** 2)
    item = x[index]
    counts = np.zeros(4)
    np.add.at(counts, index, item ** 2)
    # gather.py:9  counts[index[0]] = 1.0
    index_0 = index[0]
    counts[index_0] = 1.0

    # cotangents, from the result back to the arguments
    # gather.py:10  return np.sum(np.sqrt(1.0 + counts))
    ct_counts = 0.5 / np.sqrt(1.0 + counts)
    # gather.py:9  counts[index[0]] = 1.0
    ct_counts[index_0] = 0.0
    # gather.py:8  np.add.at(counts, index, x[index] ** 2)
    ct_x = np.zeros(4)
    np.add.at(ct_x, index, ct_counts[index] * (2.0 * item))
    return ct_x
