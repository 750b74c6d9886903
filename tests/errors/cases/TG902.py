from tracegrad.ops import for_, vjp_of


def run():
    vjp_of(for_, (1.0,), (1.0,), (0, 3, 1.0), {"step": 1, "reverse": False})
