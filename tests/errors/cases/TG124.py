import tracegrad as tg

HISTORY = []


def f(x):
    HISTORY.append(x)
    return x * x


def run():
    tg.grad(f)(1.0)
