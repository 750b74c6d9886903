import numpy as np


def f_grad(x):
    with np.errstate(divide="ignore", invalid="ignore"):
        stack = []
        stack_1 = []
        # early_return.py:8  for value in x:
        while_ = False
        while__1 = 0
        while while__1 < 4 and not while_:
            stack_1.append(while__1)
            value = x[while__1]
            # early_return.py:9  if value < 0:
            if value < 0.0:
                if_ = 0.0
                while_ = True
            else:
                # early_return.py:11  total += np.sqrt(value)
                if_ = np.sqrt(value)
            # early_return.py:9  if value < 0:
            stack.append(if_)
            # early_return.py:8  for value in x:
            while__1 = while__1 + 1

        # cotangents, from the result back to the arguments
        # early_return.py:8  for value in x:
        if not while_:
            ct_total = np.float64(2.0)
            ct_total_1 = np.float64(0.0)
        else:
            ct_total = np.float64(0.0)
            ct_total_1 = np.float64(1.0)
        ct_x = np.zeros(4)
        for k in reversed(range(while__1)):
            # early_return.py:9  if value < 0:
            kept = stack.pop()
            # early_return.py:8  for value in x:
            kept_1 = stack_1.pop()
            value = x[kept_1]
            # early_return.py:9  if value < 0:
            if value < 0.0:
                ct_total = ct_total_1 + ct_total
                ct_value = np.float64(0.0)
            else:
                # early_return.py:11  total += np.sqrt(value)
                quotient = 0.5 / kept
                both = ct_total == 0.0 and not np.isfinite(quotient)
                ct_value = ct_total * (0.0 if both else quotient)
            # early_return.py:8  for value in x:
            ct_x[kept_1] += ct_value
            ct_total_1 = np.float64(0.0)
        return ct_x
