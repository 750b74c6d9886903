"""Automatic differentiation that turns plain NumPy Python into gradient source code, in NumPy or C."""

from tracegrad import testing
from tracegrad.api import function, grad, is_tracer, stop_gradient, value_and_grad, vjp
from tracegrad.config import VERSION as __version__

__all__ = ["__version__", "function", "grad", "is_tracer", "stop_gradient", "testing", "value_and_grad", "vjp"]
