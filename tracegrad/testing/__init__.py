"""Checks for users and for tests: gradients against differences (check_grads), records of ops (rules)."""

from tracegrad.lazy import lazy_names
from tracegrad.testing.check_grads import check_grads

__all__ = ["assert_close", "check_grads"]

__getattr__ = lazy_names(__name__, {"assert_close": "assert_close:assert_close"}, globals())
