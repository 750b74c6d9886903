from tracegrad.target import read_inputs


def run():
    read_inputs(None, ["n=3", "x=f64[8,3"])
