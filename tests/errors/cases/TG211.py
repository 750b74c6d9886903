from tracegrad.ir.parser import parse_function
from tracegrad.transform.vjp import vjp

TEXT = """
func @f(%k: i64[]) -> (f64[]) {
  %y: f64[] = cast %k {dtype=f64}
  return %y
}
"""


def run():
    vjp(parse_function(TEXT), (0,))
