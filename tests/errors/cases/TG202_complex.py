import tracegrad as tg


def f(z):
    return z * z


def run():
    tg.grad(f)(1.0 + 2.0j)
