from tracegrad.target import load_function


def run():
    load_function("model.py")
