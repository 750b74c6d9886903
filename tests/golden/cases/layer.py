"""A softmax layer with its cross entropy; matrix product large enough for a library."""

import numpy as np


def f(w, x, labels):
    scores = x @ w
    scores = scores - np.max(scores, axis=1, keepdims=True)
    log_sum = np.log(np.sum(np.exp(scores), axis=1))
    return np.mean(log_sum - scores[np.arange(len(labels)), labels])


ARGUMENTS = (np.full((64, 10), 0.01), np.ones((32, 64)), np.arange(32) % 10)
