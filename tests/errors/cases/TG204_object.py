import tracegrad as tg


class Model:
    def __init__(self):
        self.rate = 2.0


def f(model):
    return model.rate**2


def run():
    tg.grad(f)(Model())
