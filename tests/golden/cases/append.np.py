# made for y0: float
import numpy as np


def f_grad(y0):
    y_stack = []
    # append.py:8  for _ in range(10):
    y = y0
    for _ in range(10):
        y_stack.append(y)
        # append.py:9  y = y + 0.1 * y * (1 - y)
        y = y + 0.1 * y * (1.0 - y)

    # cotangents, from the result back to the arguments
    # append.py:8  for _ in range(10):
    ct_y = np.float64(0.0)
    for _ in reversed(range(10)):
        y = y_stack.pop()
        # append.py:10  path.append(y)
        ct_y += 0.1
        # append.py:9  y = y + 0.1 * y * (1 - y)
        ct_y = ct_y - ct_y * (0.1 * y) + ct_y * (1.0 - y) * 0.1
    return ct_y
