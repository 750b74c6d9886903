# made for x0: float, v0: float
import numpy as np


def f_grad(x0, v0):
    x_stack = []
    # for_loop.py:8  for _ in range(100):
    v = v0
    x = x0
    for _ in range(100):
        x_stack.append(x)
        # for_loop.py:9  v = v - 0.1 * np.sin(x)
        v = v - 0.1 * np.sin(x)
        # for_loop.py:10  x = x + 0.1 * v
        x = x + 0.1 * v

    # cotangents, from the result back to the arguments
    # for_loop.py:8  for _ in range(100):
    ct_v = np.float64(0.0)
    ct_x = np.float64(1.0)
    for _ in reversed(range(100)):
        x = x_stack.pop()
        # for_loop.py:10  x = x + 0.1 * v
        ct_v += ct_x * 0.1
        # for_loop.py:9  v = v - 0.1 * np.sin(x)
        ct_x -= ct_v * 0.1 * np.cos(x)
    return ct_x, ct_v
