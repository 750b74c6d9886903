# made for x: float
import numpy as np


def f_grad(x):
    ct_y_1_stack = []
    ct_sin_y_stack = []
    cos_y_stack = []
    y_before_1_stack = []
    sin_y_1_1_stack = []
    ct_y_1_stack_1 = []
    sin_y_stack = []
    y_stack = []
    sin_y_1_stack = []
    y_before_stack = []
    # second_derivative.py:10  for _ in range(5):
    y = x
    for _ in range(5):
        y_before_stack.append(y)
        # second_derivative.py:11  y = np.sin(y) * x
        sin_y = np.sin(y)
        sin_y_1_stack.append(sin_y)
        y = sin_y * x

    # cotangents, from the result back to the arguments
    # second_derivative.py:10  for _ in range(5):
    ct_y = np.float64(1.0)
    for _ in reversed(range(5)):
        ct_y_1_stack_1.append(ct_y)
        # second_derivative.py:11  y = np.sin(y) * x
        sin_y_1 = sin_y_1_stack.pop()
        sin_y_1_1_stack.append(sin_y_1)
        # second_derivative.py:10  for _ in range(5):
        y_before = y_before_stack.pop()
        y_before_1_stack.append(y_before)
        # second_derivative.py:11  y = np.sin(y) * x
        cos_y = np.cos(y_before)
        cos_y_stack.append(cos_y)
        ct_y = ct_y * x * cos_y
    # second_derivative.py:10  for _ in range(5):
    ct_ct_y = np.float64(1.0)
    ct_x = np.float64(0.0)
    for _ in range(5):
        # second_derivative.py:11  y = np.sin(y) * x
        cos_y = cos_y_stack.pop()
        # second_derivative.py:10  for _ in range(5):
        y_before_1 = y_before_1_stack.pop()
        y_stack.append(y_before_1)
        # second_derivative.py:11  y = np.sin(y) * x
        sin_y_1_1 = sin_y_1_1_stack.pop()
        sin_y_stack.append(sin_y_1_1)
        # second_derivative.py:10  for _ in range(5):
        ct_y_1 = ct_y_1_stack_1.pop()
        # second_derivative.py:11  y = np.sin(y) * x
        ct_ct_sin = ct_ct_y * cos_y
        ct_y_before = -ct_ct_y * (ct_y_1 * x) * np.sin(y_before_1)
        ct_ct_y = sin_y_1_1 + ct_ct_sin * x
        ct_x += ct_ct_sin * ct_y_1
        # second_derivative.py:10  for _ in range(5):
        ct_y_1_stack.append(ct_y_before)
        # second_derivative.py:11  y = np.sin(y) * x
        ct_sin_y_stack.append(ct_y_1)
    # second_derivative.py:10  for _ in range(5):
    ct_y = np.float64(0.0)
    for _ in reversed(range(5)):
        # second_derivative.py:11  y = np.sin(y) * x
        sin_y = sin_y_stack.pop()
        # second_derivative.py:10  for _ in range(5):
        y = y_stack.pop()
        # second_derivative.py:11  y = np.sin(y) * x
        ct_x += ct_y * sin_y
        ct_sin_y = ct_sin_y_stack.pop()
        ct_y = (ct_y * x + ct_sin_y) * np.cos(y)
        # second_derivative.py:10  for _ in range(5):
        ct_y_1 = ct_y_1_stack.pop()
        ct_y += ct_y_1
    ct_x += ct_y
    return ct_x
