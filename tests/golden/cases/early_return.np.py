# made for x: f64[4]
import numpy as np


def f_grad(x):
    with np.errstate(divide="ignore", invalid="ignore"):
        sqrt_value_stack = []
        # early_return.py:8  for value in x:
        returned = False
        carried = 0
        while carried < 4 and not returned:
            value = x[carried]
            # early_return.py:9  if value < 0:
            if value < 0.0:
                sqrt_value = 0.0
                returned = True
            else:
                # early_return.py:11  total += np.sqrt(value)
                sqrt_value = np.sqrt(value)
            # early_return.py:9  if value < 0:
            sqrt_value_stack.append(sqrt_value)
            # early_return.py:8  for value in x:
            carried += 1

        # cotangents, from the result back to the arguments
        # early_return.py:8  for value in x:
        if not returned:
            ct_total = np.float64(2.0)
            ct_total_1 = np.float64(0.0)
        else:
            ct_total = np.float64(0.0)
            ct_total_1 = np.float64(1.0)
        ct_x = np.zeros(4)
        for k in reversed(range(carried)):
            # early_return.py:9  if value < 0:
            sqrt_value = sqrt_value_stack.pop()
            # early_return.py:8  for value in x:
            value = x[k]
            # early_return.py:9  if value < 0:
            if value < 0.0:
                ct_total = ct_total_1 + ct_total
                ct_value = np.float64(0.0)
            else:
                # early_return.py:11  total += np.sqrt(value)
                # zero stays zero, even times infinity
                ct_value = ct_total if ct_total == 0.0 else ct_total * (0.5 / sqrt_value)
            # early_return.py:8  for value in x:
            ct_x[k] += ct_value
            ct_total_1 = np.float64(0.0)
        return ct_x
