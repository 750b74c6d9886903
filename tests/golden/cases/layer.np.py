# made for w: f64[64,10], x: f64[32,64], labels: i64[32]
import numpy as np


def f_grad(w, x, labels):
    # layer.py:7  scores = x @ w
    scores = x @ w
    # layer.py:8  scores = scores - np.max(scores, axis=1, keepdims=True)
    largest = scores.max(axis=1)
    scores_1 = scores - largest[:, None]
    # layer.py:9  log_sum = np.log(np.sum(np.exp(scores), axis=1))
    exp_scores = np.exp(scores_1)

    # cotangents, from the result back to the arguments
    # layer.py:10  return np.mean(log_sum - scores[np.arange(len(labels)), labels])
    ct_log_sum = np.full(32, 0.03125)
    # layer.py:9  log_sum = np.log(np.sum(np.exp(scores), axis=1))
    ct_total = ct_log_sum / exp_scores.sum(axis=1)
    ct_scores_1 = ct_total[:, None] * exp_scores
    ct_scores_1[np.arange(32), labels] -= 0.03125
    # layer.py:8  scores = scores - np.max(scores, axis=1, keepdims=True)
    same = scores == largest[:, None]
    total = np.sum(same.astype(np.float64), axis=1)
    ct_quotient = -ct_scores_1.sum(axis=1) / total
    ct_scores = ct_scores_1 + np.where(same, ct_quotient[:, None], 0.0)
    # layer.py:7  scores = x @ w
    ct_w = x.T @ ct_scores
    return ct_w
