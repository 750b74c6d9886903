# made for x: f64[20]
import numpy as np


def f_grad(x):
    # cotangents, from the result back to the arguments
    # nested_loops.py:9  for i in range(n):
    ct_x = np.zeros(20)
    for i in reversed(range(20)):
        # nested_loops.py:10  for j in range(i):
        for j in reversed(range(i)):
            # nested_loops.py:11  energy += 1.0 / (1.0 + (x[i] - x[j]) ** 2)
            difference = x[i] - x[j]
            total = 1.0 + difference ** 2
            ct_x_j = 1.0 / total / total * (2.0 * difference)
            ct_x[j] += ct_x_j
            ct_x[i] -= ct_x_j
    return ct_x
