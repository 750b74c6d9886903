import numpy as np

from tracegrad.ir.parser import parse_function
from tracegrad.testing.interpret import interpret

TEXT = """
func @f(%x: f64[3]) -> (f64[3]) {
  %y: f64[3] = sin %x
  return %y
}
"""


def run():
    interpret(parse_function(TEXT), np.ones(4))
