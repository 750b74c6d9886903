from tracegrad.ir.parser import parse_function
from tracegrad.transform.vjp import gradient

TEXT = """
func @f(%x: f64[3]) -> (f64[3]) {
  %y: f64[3] = sin %x
  return %y
}
"""


def run():
    gradient(parse_function(TEXT), (0,))
