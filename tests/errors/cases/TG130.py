import tracegrad as tg


def halve(x):
    if x > 1.0:
        return halve(x / 2)
    return x


def run():
    tg.grad(halve)(5.0)
