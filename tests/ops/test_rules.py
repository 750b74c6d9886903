"""Every record of the op table passes the rule test; there is no list of exceptions."""

import pytest

import tracegrad.ops
from tracegrad.ir.opdef import TABLE
from tracegrad.testing.rules import CHECKS


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("name", TABLE)
def test_rule(name, check):
    check(TABLE[name])


def test_every_op_is_a_name_of_the_package():
    for name, op in TABLE.items():
        found = getattr(tracegrad.ops, name, None)
        assert found is op or getattr(tracegrad.ops, f"{name}_", None) is op, name
