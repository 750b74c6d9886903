import tracegrad as tg

seen = []
exec(compile("def keep(x, seen=seen):\n    seen += [x]", "<built>", "exec"))


def f(x):
    keep(x)  # noqa: F821
    return x * x


def run():
    tg.grad(f)(1.0)
    seen[0] + 1.0
