# made for u: f64[64], k: float
import numpy as np


def f_grad(u, k):
    stack = []
    # stencil.py:8  for _ in range(50):
    u = u.copy()
    for _ in range(50):
        # stencil.py:9  u[1:-1] += k * (u[2:] - 2 * u[1:-1] + u[:-2])
        part = u[1:63]
        total = u[2:] - 2.0 * part + u[:62]
        stack.append(total)
        u[1:63] = part + k * total

    # cotangents, from the result back to the arguments
    # stencil.py:10  return np.sum(u * u)
    ct_u = 2.0 * u
    # stencil.py:8  for _ in range(50):
    carried = np.zeros(62)
    for _ in reversed(range(50)):
        # stencil.py:9  u[1:-1] += k * (u[2:] - 2 * u[1:-1] + u[:-2])
        kept = stack.pop()
        part = ct_u[1:63].copy()
        ct_u[1:63] = 0.0
        product = part * k
        carried = carried + part * kept
        ct_u[:62] += product
        ct_u[1:63] += part - product * 2.0
        ct_u[2:] += product
    ct_k = carried.sum()
    return ct_u, ct_k
