"""Checks for users and for tests: gradients against differences (check_grads), records of ops (rules)."""

from tracegrad.testing.check_grads import check_grads

__all__ = ["check_grads"]
