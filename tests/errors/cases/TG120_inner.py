import numpy as np

import tracegrad as tg


def farthest(x):
    best = (-1.0, None)
    for i in range(len(x)):
        for j in range(i):
            distance = abs(x[i] - x[j])
            if distance > best[0]:
                best = (distance, (i, j))
    return best[0]


def run():
    tg.grad(farthest)(np.ones(140))
