import tracegrad as tg


def power(x, n):
    return x * power(x, n - 1) if n else 1.0


def run():
    tg.grad(power)(1.01, 1000)
