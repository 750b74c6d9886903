# made for params["w1"]: f64[3,5], params["b1"]: f64[5], params["w2"]: f64[5], params["b2"]:
#   float, x: f64[8,3], y: f64[8]
import numpy as np


def f_grad(params, x, y):
    w1 = params["w1"]
    b1 = params["b1"]
    w2 = params["w2"]
    b2 = np.float64(params["b2"])

    # dict_params.py:7  h = np.tanh(x @ params["w1"] + params["b1"])
    h = np.tanh(x @ w1 + b1)
    # dict_params.py:8  z = h @ params["w2"] + params["b2"]
    z = h @ w2 + b2

    # cotangents, from the result back to the arguments
    # dict_params.py:9  return np.mean((z - y) ** 2)
    ct_z = 0.25 * (z - y)
    # dict_params.py:8  z = h @ params["w2"] + params["b2"]
    ct_b2 = ct_z.sum()
    ct_h = np.outer(ct_z, w2)
    ct_w2 = ct_z @ h
    # dict_params.py:7  h = np.tanh(x @ params["w1"] + params["b1"])
    ct_total = ct_h * (1.0 - h ** 2)
    ct_b1 = ct_total.sum(axis=0)
    ct_w1 = x.T @ ct_total
    return {"w1": ct_w1, "b1": ct_b1, "w2": ct_w2, "b2": ct_b2}
