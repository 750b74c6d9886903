import tracegrad as tg


def inner(n):
    return n * 2.0


def f(x):
    return tg.grad(inner)(3) * x


def run():
    tg.grad(f)(1.0)
