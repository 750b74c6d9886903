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
    carried = np.full(10, 0.1)
    for _ in reversed(range(10)):
        y = y_stack.pop()
        # append.py:9  y = y + 0.1 * y * (1 - y)
        product = 0.1 * y
        difference = 1.0 - y
        # append.py:10  path.append(y)
        item = carried[_]
        carried[_] = 0.0
        ct_y = ct_y + item
        # append.py:9  y = y + 0.1 * y * (1 - y)
        ct_y_1 = ct_y - ct_y * product
        ct_y = ct_y_1 + ct_y * difference * 0.1
    return ct_y
