from tracegrad.ir.parser import parse_function

TEXT = """
func @f(%x: f64[3]) -> (f64[3]) {
  %z: f64[3] = add %y, %x
  return %z
}
"""


def run():
    parse_function(TEXT)
