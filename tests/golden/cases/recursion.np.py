import numpy as np


def f_grad(x):
    # recursion.py:10  return half * half * x if n % 2 else half * half
    half = x * x

    # cotangents, from the result back to the arguments
    # recursion.py:10  return half * half * x if n % 2 else half * half
    ct_x = half * half
    ct_half = x * half
    ct_half = ct_half + ct_half
    product = ct_half * x
    ct_x = ct_x + product
    ct_x = ct_x + product
    return ct_x
