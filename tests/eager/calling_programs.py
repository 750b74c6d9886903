"""Programs about writes, conversions and options of calls, which print the same under tracegrad and torch; see
programs.py.
"""

from __future__ import annotations

import operator
import warnings
from typing import Any

from tests.eager.programs import attempt, program
from tests.eager.training_programs import PROGRAMS, lines

__all__ = ["PROGRAMS", "lines"]


def attempt_class(say: Any, function: Any) -> None:
    """Report the class of an error, or what there was without one."""
    try:
        say("no error", function())
    except Exception as error:
        say(type(error).__name__)


@program
def augmented_assignments_are_in_place(T: Any, say: Any) -> None:
    for form in (operator.iand, operator.ior, operator.ixor):
        bits = T.tensor([True, False])
        alias = bits
        bits = form(bits, T.tensor([False, True]))
        say(bits is alias, alias, alias._version)
        bits = form(bits, True)
        say(bits is alias, alias, form(T.tensor([6, 3]), 5))
        for wrong in (3, "a", None, [True, False]):
            attempt(say, lambda form=form, bits=bits, wrong=wrong: form(bits, wrong))
    for form in (operator.ilshift, operator.irshift, operator.ifloordiv, operator.imod, operator.ipow):
        numbers = T.tensor([[12, 6], [7, 9]])
        row = numbers[0]
        row = form(row, 2)
        say(numbers, numbers._version)
        attempt(say, lambda form=form, row=row: form(row, "a"))
    say(T.tensor([1]).bitwise_left_shift_(2), T.tensor([8]).bitwise_right_shift_(T.tensor(1)))
    attempt(say, lambda: T.ones(2) << 1)
    for form in (operator.iadd, operator.isub, operator.imul, operator.itruediv):
        attempt(say, lambda form=form: form(T.ones(2), "a"))


@program
def complex_numbers_are_true_unless_they_are_zero(T: Any, say: Any) -> None:
    z, mask = T.tensor([1j, 0, 2]), T.zeros(3, dtype=T.bool)
    say(z.bool(), z.to(T.bool), z.type(T.bool), T.as_tensor(z, dtype=T.bool), T.where(z.bool(), 1, 0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mask[:] = z
        say(mask, mask.clone().copy_(z.flip(0)), z.sum(dtype=T.bool))
    mask.zero_()
    mask[0] = 1j
    say(mask, mask.clone().fill_(1j), mask.clone().fill_(T.tensor(2j)), mask.new_full((1,), 1j))
    say(mask.masked_fill(~mask, 1j), mask.masked_fill(~mask, T.tensor(1j)), T.full((2,), 1j, dtype=T.bool))
    say(T.full_like(mask, 1j), mask.scatter(0, T.tensor([1]), 1j))
    attempt(say, lambda: T.full((2,), 1j, dtype=T.float32))


@program
def tangents_end_with_their_level(T: Any, say: Any) -> None:
    fa = T.autograd.forward_ad
    x = T.tensor([3.0, 4.0], requires_grad=True)
    with fa.dual_level():
        dual = fa.make_dual(T.ones(2), T.tensor([1.0, 2.0]))
        double, part, saved = dual * 2, dual[1:], fa.make_dual(x, T.ones(2)) ** 2
        say(dual, double, part, fa.unpack_dual(T.autograd.grad(saved.sum(), x, retain_graph=True)[0]).tangent)
    say(dual, double, part)
    with fa.dual_level():
        say(fa.unpack_dual(dual).tangent, fa.unpack_dual(double).tangent, fa.unpack_dual(part).tangent, dual)
        say(fa.unpack_dual(T.autograd.grad(saved.sum(), x)[0]).tangent)
        again = fa.make_dual(dual, T.tensor([5.0, 6.0]))
        say(fa.unpack_dual(again * double).tangent)
        dual.mul_(again)
        say(fa.unpack_dual(dual), fa.unpack_dual(part).tangent)
    dual[:1] = 7
    say(dual, double.clone(), T.stack([double, again]))


@program
def functions_without_a_gradient_are_not_checked(T: Any, say: Any) -> None:
    x = T.tensor([1.0, 2.0], dtype=T.float64, requires_grad=True)
    functions = (
        lambda a: None, lambda a: a.sum().item(), lambda a: 3, lambda a: (a * 2, None), lambda a: {"a": a},
        lambda a: a > 0.5, lambda a: (a * 2, a > 0.5), lambda a: a.argmax(), lambda a: [a * 2, a * 3], lambda a: (),
    )  # fmt: skip
    for function in functions:
        for options in ({}, {"raise_exception": False}, {"fast_mode": True}):
            attempt_class(say, lambda: T.autograd.gradcheck(function, x, **options))
        attempt_class(say, lambda: T.autograd.gradcheck(function, x, check_backward_ad=False, check_forward_ad=True))
    attempt_class(say, lambda: T.autograd.gradgradcheck(lambda a: None, x))
    attempt_class(say, lambda: T.autograd.gradcheck(lambda a: a, 3))


def attempt_text(say: Any, function: Any) -> None:
    """Report an error with the first line of its message, or what there was without one."""
    try:
        say("no error", function())
    except Exception as error:
        say(type(error).__name__, str(error).split("\n")[0])


@program
def strict_mode(T: Any, say: Any) -> None:
    A = T.autograd.functional
    x, y = T.tensor([1.0, 2.0]), T.tensor([3.0, 1.0])
    of_one = (
        lambda a: a.sum(), lambda a: (a**2).sum(), lambda a: (a**3).sum(), lambda a: a * 2, lambda a: T.ones(1),
        lambda a: ((a**2).sum(),), lambda a: [a * 2], lambda a: 3,
    )  # fmt: skip
    of_two = (
        lambda a, b: a.sum(), lambda a, b: (a**2).sum() + b.sum(), lambda a, b: (a * b).sum(), lambda a, b: (a * 2, b),
    )  # fmt: skip

    def values(found: Any) -> Any:
        return tuple(map(values, found)) if isinstance(found, tuple) else found.detach().tolist()

    for functions, given in ((of_one, x), (of_two, (x, y))):
        for function in functions:
            for options in ({"strict": True}, {"strict": True, "create_graph": True}, {}):
                for product in (A.vjp, A.jvp, A.vhp, A.hvp):
                    attempt_text(say, lambda: values(product(function, given, given, **options)))
                for whole in (A.jacobian, A.hessian):
                    attempt_text(say, lambda: values(whole(function, given, **options)))
    attempt_text(say, lambda: A.jacobian(of_one[1], x, strict=True, vectorize=True))
    for product in (A.vjp, A.jvp, A.vhp, A.hvp):
        for wrong in (
            ([x], x),
            (x, [x]),
            (x, (x, x)),
            (x, T.ones(3)),
            ((x,), (T.ones(3),)),
            (3, x),
            (x, 3),
            ((x, 3), x),
        ):
            attempt_text(say, lambda: product(lambda *a: (a[0] ** 2).sum() * 1, *wrong))
    for whole in (A.jacobian, A.hessian):
        for wrong in ([x], 3, (x, 3)):
            attempt_text(say, lambda: whole(lambda *a: (a[0] ** 2).sum() * 1, wrong))
