# made for x: float
import numpy as np


def f_grad(x):
    ct_y_stack = []
    ct_sin_stack = []
    cos_stack = []
    y_stack = []
    sin_stack = []
    ct_y_stack_1 = []
    sin_stack_1 = []
    y_stack_1 = []
    sin_stack_2 = []
    y_stack_2 = []
    # second_derivative.py:10  for _ in range(5):
    y = x
    for _ in range(5):
        y_stack_2.append(y)
        # second_derivative.py:11  y = np.sin(y) * x
        sin_y = np.sin(y)
        sin_stack_2.append(sin_y)
        y = sin_y * x

    # cotangents, from the result back to the arguments
    # second_derivative.py:10  for _ in range(5):
    ct_y = np.float64(1.0)
    for _ in reversed(range(5)):
        ct_y_stack_1.append(ct_y)
        # second_derivative.py:11  y = np.sin(y) * x
        sin_y = sin_stack_2.pop()
        sin_stack.append(sin_y)
        # second_derivative.py:10  for _ in range(5):
        y = y_stack_2.pop()
        y_stack.append(y)
        # second_derivative.py:11  y = np.sin(y) * x
        cos_y = np.cos(y)
        cos_stack.append(cos_y)
        ct_y = ct_y * x * cos_y
    # second_derivative.py:10  for _ in range(5):
    ct_ct_y = np.float64(1.0)
    ct_x = np.float64(0.0)
    for _ in range(5):
        # second_derivative.py:11  y = np.sin(y) * x
        cos_y = cos_stack.pop()
        # second_derivative.py:10  for _ in range(5):
        y = y_stack.pop()
        y_stack_1.append(y)
        # second_derivative.py:11  y = np.sin(y) * x
        ct_ct_y_1 = sin_stack.pop()
        sin_stack_1.append(ct_ct_y_1)
        # second_derivative.py:10  for _ in range(5):
        ct_y = ct_y_stack_1.pop()
        # second_derivative.py:11  y = np.sin(y) * x
        ct_product = ct_ct_y * cos_y
        ct_y_1 = -ct_ct_y * (ct_y * x) * np.sin(y)
        ct_ct_y = ct_ct_y_1 + ct_product * x
        ct_x += ct_product * ct_y
        # second_derivative.py:10  for _ in range(5):
        ct_y_stack.append(ct_y_1)
        # second_derivative.py:11  y = np.sin(y) * x
        ct_sin_stack.append(ct_y)
    # second_derivative.py:10  for _ in range(5):
    ct_y = np.float64(0.0)
    for _ in reversed(range(5)):
        # second_derivative.py:11  y = np.sin(y) * x
        ct_sin_1 = sin_stack_1.pop()
        # second_derivative.py:10  for _ in range(5):
        y = y_stack_1.pop()
        # second_derivative.py:11  y = np.sin(y) * x
        ct_x += ct_y * ct_sin_1
        ct_sin = ct_sin_stack.pop()
        ct_y = (ct_y * x + ct_sin) * np.cos(y)
        # second_derivative.py:10  for _ in range(5):
        ct_y_1 = ct_y_stack.pop()
        ct_y += ct_y_1
    ct_x += ct_y
    return ct_x
