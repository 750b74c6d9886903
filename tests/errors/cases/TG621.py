import tracegrad as tg


def inner(y, n):
    for _ in range(n):
        for _ in range(n):
            for _ in range(n):
                for _ in range(n):
                    for _ in range(n):
                        for _ in range(n):
                            y = 0.5 * y
    return y


def middle(y, n):
    for _ in range(n):
        for _ in range(n):
            for _ in range(n):
                for _ in range(n):
                    for _ in range(n):
                        for _ in range(n):
                            for _ in range(n):
                                y = inner(y, n)
    return y


def f(y, n):
    for _ in range(n):
        for _ in range(n):
            for _ in range(n):
                for _ in range(n):
                    for _ in range(n):
                        for _ in range(n):
                            for _ in range(n):
                                for _ in range(n):
                                    y = middle(y, n)
    return y


def run():
    tg.function(f)(1.0, 2)
