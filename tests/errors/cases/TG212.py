from tracegrad.ir.parser import parse_function
from tracegrad.transform.vjp import vjp

TEXT = """
func @f(%x: f64[]) -> (f64[]) {
  %small: bool[] = isnan %x  // model.py:2:8
  %y: f64[] = if %small () {
    yield %x
  } () {
    %z: f64[] = sin %x  // model.py:4:12
    %w: f64[] = call %z {function='@f'}  // model.py:4:12
    yield %w
  }
  return %y
}
"""


def run():
    vjp(parse_function(TEXT), (0,))
