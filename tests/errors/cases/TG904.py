import numpy as np

from tracegrad.ir.types import array_type
from tracegrad.runtime.call import call_flat
from tracegrad.runtime.signature import Leaf


def refuse(*arrays):
    return NotImplemented


def run():
    call_flat(refuse, [np.ones(3)], (Leaf(array_type("f64[3]")),), ["x"])
