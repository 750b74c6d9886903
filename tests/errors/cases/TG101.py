import tracegrad as tg


def f(x):
    scale = {0.5: 1.0, 1.5: 2.0}
    return x * scale[x]


def run():
    tg.grad(f)(0.5)
