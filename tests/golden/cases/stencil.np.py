# made for u: f64[64], k: float
import numpy as np


def f_grad(u, k):
    total_stack = []
    # stencil.py:8  for _ in range(50):
    u = u.copy()
    for _ in range(50):
        # stencil.py:9  u[1:-1] += k * (u[2:] - 2 * u[1:-1] + u[:-2])
        part = u[1:-1]
        total = u[2:] - 2.0 * part + u[:-2]
        total_stack.append(total)
        u[1:-1] = part + k * total

    # cotangents, from the result back to the arguments
    # stencil.py:10  return np.sum(u * u)
    ct_u = 2.0 * u
    # stencil.py:8  for _ in range(50):
    ct_k_spread = np.zeros(62)
    for _ in reversed(range(50)):
        # stencil.py:9  u[1:-1] += k * (u[2:] - 2 * u[1:-1] + u[:-2])
        total = total_stack.pop()
        ct_total_1 = ct_u[1:-1].copy()
        ct_u[1:-1] = 0.0
        ct_total = ct_total_1 * k
        ct_k_spread += ct_total_1 * total
        ct_u[:-2] += ct_total
        ct_u[1:-1] += ct_total_1 - ct_total * 2.0
        ct_u[2:] += ct_total
    ct_k = ct_k_spread.sum()
    return ct_u, ct_k
