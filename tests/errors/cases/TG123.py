import tracegrad as tg

exec(compile("def relay(f):\n    import numpy\n    return f(numpy.zeros(3))", "<built>", "exec"))


def f(x):
    def write(buffer):
        buffer[0] = x
        return buffer[0]

    return relay(write)  # noqa: F821


def run():
    tg.grad(f)(1.0)
