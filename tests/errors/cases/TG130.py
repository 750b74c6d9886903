import tracegrad as tg


def approach(x):
    if x > 1.0:
        return approach(x / 2)
    return approach(x * 3)


def run():
    tg.grad(approach)(5.0)
