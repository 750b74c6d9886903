# made for a: float
import numpy as np


def f_grad(a):
    a = np.float64(a)

    with np.errstate(divide="ignore", invalid="ignore"):
        x_stack = []
        # while_break.py:8  while True:
        carried = False
        x = a
        trips = 0
        while not carried:
            x_stack.append(x)
            # while_break.py:9  step = (x**3 - a) / (3 * x**2)
            square_x = x ** 2
            product = 3.0 * square_x
            if product == 0.0:
                raise ZeroDivisionError("division by zero")
            step = (square_x * x - a) / product
            # while_break.py:10  if np.abs(step) < 1e-12:
            if np.abs(step) < 1e-12:
                carried = True
            else:
                # while_break.py:12  x = x - step
                x = x - step
            # while_break.py:8  while True:
            trips = trips + 1

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
            reciprocal = 1.0 / product
            same = ct_step == 0.0
            both = same and not np.isfinite(reciprocal)
            product_1 = ct_step * (0.0 if both else reciprocal)
            minus = -(step / product)
            both = same and not np.isfinite(minus)
            product = ct_step * (0.0 if both else minus) * 3.0
            ct_a = ct_a - product_1
            same = product_1 == 0.0
            choice = np.float64(0.0 if same and not np.isfinite(x) else x)
            both = same and not np.isfinite(square_x)
            total = product + product_1 * choice
            ct_x = ct_x + product_1 * (0.0 if both else square_x)
            product = 2.0 * x
            both = total == 0.0 and not np.isfinite(product)
            ct_x = ct_x + total * (0.0 if both else product)
        # while_break.py:8  while True:
        ct_a = ct_a + ct_x
        return ct_a
