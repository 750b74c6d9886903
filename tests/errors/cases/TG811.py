from tracegrad.cli import write_file


def run():
    write_file("/no/such/directory/loss.c", "text")
