import tracegrad as tg


def f(x):
    return x**2


def run():
    tg.vmap(f)([1.0, 2.0, 3.0])
