from tracegrad.target import read_inputs


def run():
    read_inputs("batch.csv", [])
