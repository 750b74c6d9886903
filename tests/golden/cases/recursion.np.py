# made for x: f64[2]
import numpy as np


def f_grad(x):
    # recursion.py:10  return half * half * x if n % 2 else half * half
    half = x * x

    # cotangents, from the result back to the arguments
    # recursion.py:10  return half * half * x if n % 2 else half * half
    ct_half = x * (2.0 * half)
    ct_x = half * half + ct_half * (2.0 * x)
    return ct_x
