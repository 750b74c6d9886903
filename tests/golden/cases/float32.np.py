# made for x: f32[3]
import numpy as np


def f_grad(x):
    # cotangents, from the result back to the arguments
    # float32.py:10  return np.mean(s)
    ct_s = np.full(3, np.float32(0.33333334))
    # float32.py:8  for k in range(1, 4):
    ct_x = np.zeros(3, dtype=np.float32)
    for k in reversed(range(1, 4)):
        # float32.py:9  s = s + 0.5 * np.cos(k * x)
        cast_k = np.float32(k)
        ct_x -= 0.16666667 * np.sin(cast_k * x) * cast_k
    # float32.py:8  for k in range(1, 4):
    ct_x += ct_s
    return ct_x
