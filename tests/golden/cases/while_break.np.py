# made for a: float
import numpy as np


def f_grad(a):
    a = np.float64(a)

    x_stack = []
    # while_break.py:8  while True:
    stopped = False
    x = a
    trips = 0
    while not stopped:
        x_stack.append(x)
        # while_break.py:9  step = (x**3 - a) / (3 * x**2)
        square_x = x ** 2
        product = 3.0 * square_x
        if product == 0.0:
            raise ZeroDivisionError("float division by zero")
        step = (square_x * x - a) / product
        # while_break.py:10  if np.abs(step) < 1e-12:
        if np.abs(step) < 1e-12:
            stopped = True
        else:
            # while_break.py:12  x = x - step
            x = x - step
        # while_break.py:8  while True:
        trips += 1

    # cotangents, from the result back to the arguments
    # while_break.py:8  while True:
    ct_x = np.float64(1.0)
    ct_a = np.float64(0.0)
    for k in reversed(range(trips)):
        x = x_stack.pop()
        # while_break.py:9  step = (x**3 - a) / (3 * x**2)
        square_x = x ** 2
        product = 3.0 * square_x
        step = (square_x * x - a) / product
        # while_break.py:10  if np.abs(step) < 1e-12:
        if np.abs(step) < 1e-12:
            ct_step = np.float64(0.0)
        else:
            # while_break.py:12  x = x - step
            ct_step = -ct_x
        # while_break.py:9  step = (x**3 - a) / (3 * x**2)
        ct_difference = ct_step / product
        ct_a -= ct_difference
        ct_x = ct_x + ct_difference * (3.0 * square_x) - 6.0 * (ct_step * (step / product)) * x
    # while_break.py:8  while True:
    ct_a += ct_x
    return ct_a
