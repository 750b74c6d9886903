from tracegrad.cli import refused_file


def run():
    try:
        open("/no/such/directory/v1")
    except OSError as error:
        raise refused_file(error) from None
