from tracegrad.ir.builder import Builder
from tracegrad.ir.core import Block, Value
from tracegrad.ir.opdef import interpreter
from tracegrad.ir.types import array_type
from tracegrad.ops import add


def run():
    with interpreter(Builder(Block())):
        add(Value(array_type("f64[3]"), "x"), Value(array_type("f64[4]"), "y"))
