from tracegrad import ops
from tracegrad.ir.parser import parse_function
from tracegrad.ir.verifier import verify_function

TEXT = """
func @f(%x: f64[3]) -> (f64[3]) {
  %y: f64[3] = OP %x  // model.py:2:9
  %z: f64[4] = add %y, %x  // model.py:3:9
  return %y
}
"""


def run():
    verify_function(parse_function(TEXT.replace("OP", ops.sin.name)), "cse")
