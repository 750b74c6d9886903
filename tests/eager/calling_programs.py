"""Programs about writes, conversions and options of calls, which print the same under tracegrad and torch; see
programs.py.
"""

from __future__ import annotations

import array
import collections
import copy
import operator
import warnings
from typing import Any

import numpy as np

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


@program
def functions_of_floats_take_integers(T: Any, say: Any) -> None:
    for dtype in (T.uint8, T.int8, T.int32, T.int64, T.bool, T.float64):
        x = T.tensor([0, 1, 2], dtype=dtype)
        for function in (T.deg2rad, T.rad2deg, T.logit, T.special.logit, lambda a: T.logit(a, 0.25)):
            say(function(x))
        say(T.sinc(x).dtype, T.special.sinc(x).round(decimals=3).abs())
    for dtype in (T.int32, T.bool, T.float64):
        for x in (T.tensor([1.0, 2.5]), T.tensor([1, 2])):
            for name in ("mean", "nanmean", "sum"):
                attempt_text(say, lambda: getattr(x, name)(dtype=dtype))
            attempt_text(say, lambda: x.cumsum(0, dtype=dtype))
            attempt_text(say, lambda: x.cumprod(0, dtype=dtype))
    attempt_text(say, lambda: T.tensor([1 + 1j, 2]).nansum())


@program
def factors_of_sums(T: Any, say: Any) -> None:
    bits, numbers, floats = T.tensor([True, False]), T.tensor([3, 4]), T.tensor([1.0, 2.0])
    for name in ("add", "sub", "rsub"):
        for first in (bits, numbers, floats):
            for second in (bits, numbers, floats, 2):
                for alpha in (2, True, 0.5, 2j, 1.0):
                    attempt(say, lambda: getattr(T, name)(first, second, alpha=alpha))
    for alpha in ("a", None, numbers):
        attempt_text(say, lambda: T.add(bits, bits, alpha=alpha))
        attempt_text(say, lambda: T.sub(bits, bits, alpha=alpha))
    say(
        T.add(numbers, T.tensor([1j, 2]), alpha=2j), T.add(bits, bits, alpha=False), T.add(numbers.half(), 2.5, alpha=3)
    )
    for alpha in (2, 3, 2.0, True):
        attempt_text(say, lambda: numbers.clone().add_(numbers, alpha=alpha))
    whole = T.tensor([[3, 4], [1, 2]])
    for x in (whole.float(), whole, whole > 2):
        for factor in (2, 0.5, 2j):
            for keyword in ("alpha", "beta"):
                attempt(say, lambda: T.addmm(x, x, x, **{keyword: factor}))
                attempt(say, lambda: T.addmv(x[0], x, x[0], **{keyword: factor}))
                attempt(say, lambda: T.baddbmm(x[None], x[None], x[None], **{keyword: factor}))
            attempt(say, lambda: T.addcmul(x, x, x, value=factor))
            attempt(say, lambda: T.addcdiv(x, x, x, value=factor))
            attempt(say, lambda: T.addr(x, x[0], x[0], alpha=factor))
    nothing = T.full((1, 1), float("nan"), requires_grad=True)
    one = T.ones(1, 1)
    T.addmm(nothing, one, one, beta=0).sum().backward()
    say(nothing.grad, T.addmv(nothing[0], one, one[0], beta=0), T.baddbmm(nothing[None], one[None], one[None], beta=0))
    say(T.addr(nothing, one[0], one[0], beta=0).detach(), T.addbmm(nothing, one[None], one[None], beta=0).detach())


@program
def tensors_as_numbers(T: Any, say: Any) -> None:
    F = T.nn.functional
    x, numbers = T.arange(6.0).reshape(2, 3), T.tensor([3.0, 4.0])
    for k in (0, 1):
        dim = T.tensor(k)
        say(x.sum(dim), x.mean(dim), x.prod(dim), x.cumsum(dim), x.softmax(dim), x.amax(dim), x.max(dim), x.var(dim))
        say(x.logsumexp(dim), x.var(correction=dim), x.tril(dim))
    for k in (2, 3, 2.5):
        number = T.tensor(k)
        say(T.add(numbers, numbers, alpha=number), T.sub(numbers, numbers, alpha=number), F.softplus(x, number))
        say(T.addcmul(numbers, numbers, numbers, value=number), T.addmm(T.eye(2), T.eye(2), T.eye(2), alpha=number))
        say(F.leaky_relu(-x, number), F.elu(-x, number), F.huber_loss(x, x + 9, delta=number), x.norm(number))
        say(F.layer_norm(x, (3,), eps=number), x.nan_to_num(number), F.threshold(x, number, 0), x.logit(number / 9))


@program
def positions_keep_axes(T: Any, say: Any) -> None:
    x = T.tensor([[1.0, 5.0], [9.0, 2.0]])
    say(x.argmax(keepdim=True), x.argmin(keepdim=True), T.argmax(x, None, True), T.argmin(x, dim=None, keepdim=False))
    say(x[None].argmax(keepdim=True).shape, x.argmax(1, keepdim=True), x.argmin(-2, True))
    say([T.tensor(3.0).argmax(*given) for given in ((), (0,), (0, True), (None, True))])


@program
def hooks_of_one_saved_value(T: Any, say: Any) -> None:
    x, y = T.tensor([1.0, 2.0], requires_grad=True), T.tensor([3.0, 4.0], requires_grad=True)
    z, seen = x * y, []

    def pack(t: Any) -> Any:
        seen.append(("pack", t.tolist(), t.requires_grad))
        return t * 10

    def unpack(t: Any) -> Any:
        seen.append(("unpack", t.tolist()))
        return t

    saved = z.grad_fn._raw_saved_self
    say(type(saved).__name__, saved.register_hooks(pack, unpack), z.grad_fn._saved_self, seen)
    z.sum().backward(retain_graph=True)
    say(x.grad, y.grad, seen)
    attempt(say, lambda: saved.register_hooks(pack, unpack))
    attempt(say, lambda: z.grad_fn._raw_saved_self.register_hooks(pack, unpack))
    attempt_class(say, lambda: z.grad_fn._raw_saved_other.register_hooks(pack))
    attempt_class(say, lambda: z.grad_fn._raw_saved_other.register_hooks(3, 4))
    attempt_class(say, lambda: z.grad_fn._raw_saved_nothing)
    z.sum().backward()
    attempt(say, lambda: saved.register_hooks(pack, unpack))
    e = x.exp()
    e.grad_fn._raw_saved_result.register_hooks(lambda t: 7, lambda number: T.full((2,), float(number)))
    say(e.grad_fn._saved_result.tolist(), T.autograd.grad(e.sum(), x))
    attempt(say, lambda: (x * y).grad_fn._raw_saved_self.register_hooks(lambda t: t.add_(1), unpack))
    with T.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        attempt(say, lambda: (x * y).grad_fn._raw_saved_self.register_hooks(pack, unpack))


@program
def saved_values_of_functions(T: Any, say: Any) -> None:
    class Product(T.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            ctx.save_for_backward(a, b, None)
            return a * b

        @staticmethod
        def backward(ctx: Any, ct: Any) -> Any:
            a, b, _ = ctx.saved_tensors
            return ct * b, ct * a

    x, y = T.tensor([1.0, 2.0], requires_grad=True), T.tensor([3.0, 4.0], requires_grad=True)
    z = Product.apply(x, y)
    raw = z.grad_fn._raw_saved_tensors
    say([type(t).__name__ for t in raw])
    raw[0].register_hooks(lambda t: t.detach() * 5, lambda t: t)
    attempt(say, lambda: raw[2].register_hooks(lambda t: t, lambda t: t))
    say(T.autograd.grad(z.sum(), [x, y], retain_graph=True), z.grad_fn.saved_tensors)
    say(T.autograd.grad(z.sum(), [x, y]))
    attempt(say, lambda: z.grad_fn._raw_saved_tensors)
    for number in (x, x * 1):
        with T.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            z = Product.apply(number, number) * 2
        (first,) = T.autograd.grad(z.sum(), x, create_graph=True)
        say(first.detach(), T.autograd.grad(first.sum(), x))
    with T.no_grad():
        say(Product.apply(x, y))


@program
def tensors_of_sequences(T: Any, say: Any) -> None:
    for data in (
        range(3), [range(2), range(2)], (range(2), [1.0, 2.0]), range(0), [[range(2)]], array.array("i", [1, 2]),
        collections.deque([1, 2]), bytearray(b"ab"),
    ):  # fmt: skip
        say(T.tensor(data), T.as_tensor(data, dtype=T.float64), T.ones(1).new_tensor(data))
    for data in ([range(2), range(3)], b"ab", {1, 2}, iter([1])):
        attempt_text(say, lambda: T.tensor(data))


@program
def keywords_of_sizes(T: Any, say: Any) -> None:
    x = T.arange(6.0).reshape(2, 3)
    say(x.permute(dims=(1, 0)), T.permute(x, dims=(1, 0)), x.view(size=(3, 2)), x.view(dtype=T.int32))
    say(
        x.reshape(shape=(3, 2)),
        T.reshape(x, shape=(3, 2)),
        x[:1].expand(size=(2, 3)),
        x[:1].expand(2, 3, implicit=True),
    )
    say(x.repeat(repeats=(2, 1)), x.tile(dims=(2,)), T.tile(x, dims=(2,)), x.flip(dims=(0,)), T.flip(x, dims=[0]))
    say(x.new_zeros(size=(2,)), x.new_ones(size=[1]), x.new_full(size=(2,), fill_value=3.0), x.sum_to_size(size=(1, 3)))
    say(x.swapaxes(axis0=0, axis1=1), T.split(x, split_size_or_sections=1), x.split(split_size=[1, 2], dim=1))
    say(x.tensor_split(sections=2), x.tensor_split(indices=(1,), dim=1), x.clone().resize_(size=(3, 2)))
    say(x.count_nonzero(dim=[1]), T.count_nonzero(x, [0, 1]), x.count_nonzero(0), x.count_nonzero(dim=()))
    say(reversed(x), reversed(T.tensor(3.0)), [row.tolist() for row in reversed(x)])


@program
def gradients_by_name(T: Any, say: Any) -> None:
    a, b = T.ones(2, requires_grad=True), T.ones(2, requires_grad=True)
    say(T.autograd.grad((a * 2).sum(), {"a": a}), T.autograd.grad(a.sum(), {"a": a, "b": b}, allow_unused=True))
    say(T.autograd.grad(a * 2, {"a": a}, T.eye(2), is_grads_batched=True))
    attempt(say, lambda: T.autograd.grad(a.sum(), {}))
    attempt(say, lambda: T.autograd.grad(a.sum(), {"a": a, "b": 3}))
    for wrong in ("yes", 1.5):
        attempt_text(say, lambda: a.sum().backward(retain_graph=wrong))
        attempt_text(say, lambda: T.autograd.backward(a.sum(), create_graph=wrong))
        attempt_text(say, lambda: T.autograd.grad(a.sum(), a, retain_graph=wrong))


@program
def sums_of_exponentials_of_complex_numbers(T: Any, say: Any) -> None:
    x, y = T.tensor([1 + 2j, 0.5, 2j]), T.tensor([2 - 1j, 1, -1j])
    x.requires_grad_()
    for made in (T.logaddexp(x, y), x.logcumsumexp(0)):
        (gradient,) = T.autograd.grad(made.abs().sum(), x)
        say([f"{z.real:.4f} {z.imag + 0:.4f}" for z in [*made.tolist(), *gradient.tolist()]])


@program
def tensors_over_other_memory(T: Any, say: Any) -> None:
    strided = T.empty_strided((2, 3), (1, 2), dtype=T.int32)
    say(strided.stride(), strided.dtype, T.ones(1).new_empty_strided(size=(2,), stride=(3,)).stride())
    numbers = np.arange(3.0)
    shared = T.from_dlpack(numbers)
    numbers[0] = 5
    say(shared, np.from_dlpack(shared), T.utils.dlpack.from_dlpack(shared).data_ptr() == shared.data_ptr())
    attempt_class(say, lambda: np.from_dlpack(T.ones(2, requires_grad=True)))
    memory = bytearray(range(8))
    view = T.frombuffer(memory, dtype=T.uint8, count=3, offset=2)
    memory[2] = 9
    say(view, T.frombuffer(memory, dtype=T.int32))
    for options in ({"offset": 2}, {"count": 5}, {"offset": 9}, {"count": 0}):
        attempt_text(say, lambda: T.frombuffer(memory, dtype=T.int32, **options))
    attempt_text(say, lambda: T.frombuffer(bytearray(), dtype=T.int32))
    attempt_text(say, lambda: T.frombuffer(3, dtype=T.int32))


@program
def functions_of_elements_in_place(T: Any, say: Any) -> None:
    x = T.arange(4.0).reshape(2, 2)
    say(x.map_(T.ones(2), lambda a, b: a + b), x.map2_(x, T.ones(2, 1), lambda a, b, c: a + b * c))
    attempt(say, lambda: x.map_(T.ones(2, requires_grad=True), lambda a, b: a))
    say((-x).prelu(T.tensor([0.5])), T.tensor([0.0, 1.0]).multinomial(1), T.tensor([[0.0, 1.0]]).multinomial(3, True))


@program
def default_dtypes_and_devices(T: Any, say: Any) -> None:
    for wrong in ("float", float, np.float64, T.int32, "torch.DoubleTensor", 3, None):
        attempt_class(say, lambda: T.set_default_dtype(wrong))
    for kind in (T.DoubleTensor, "torch.HalfTensor", T.FloatTensor):
        T.set_default_tensor_type(kind)
        say(T.get_default_dtype(), T.ones(1).dtype)
    attempt_class(say, lambda: T.set_default_tensor_type(T.IntTensor))
    T.set_default_device("cpu")
    T.set_default_device(None)
    say(T.get_default_device())
    attempt_class(say, lambda: T.set_default_device("nothing"))
    x = T.ones(2)
    for call in (
        lambda: x.to(dtype="float"), lambda: T.zeros(2, dtype="float"), lambda: T.tensor([1], dtype="float"),
        lambda: x.sum(dtype="float"), lambda: T.as_tensor([1], dtype="float"), lambda: T.ones_like(x, dtype="float"),
        lambda: T.arange(3, dtype="float"), lambda: x.softmax(0, dtype="float"), lambda: T.finfo("float"),
        lambda: T.nn.Linear(2, 2, dtype="float"), lambda: x.new_zeros(2, dtype="float"), lambda: T.iinfo("int"),
        lambda: x.to(dtype=float).dtype, lambda: T.zeros(2, dtype=int).dtype, lambda: T.ones(1, dtype=bool).dtype,
    ):  # fmt: skip
        attempt_class(say, call)
    for call in (lambda: T.zeros(2, dtype="float"), lambda: T.as_tensor([1], dtype="float")):
        attempt_text(say, call)
    T.random.manual_seed(3)
    with T.random.fork_rng():
        inside = T.rand(2)
    say(T.equal(inside, T.rand(2)), T.random.initial_seed(), T.random.get_rng_state().dtype)


@program
def options_that_are_refused(T: Any, say: Any) -> None:
    F, x = T.nn.functional, T.arange(6.0).reshape(2, 3)
    for call in (
        lambda: x.sum(dim=1, axis=1), lambda: x.sum(keepdim=True), lambda: x.mean(keepdim=True),
        lambda: x.prod(keepdim=True), lambda: x.max(keepdim=True), lambda: x.median(keepdim=True),
        lambda: x.sum(None, True), lambda: x.any(keepdim=True), lambda: x.amax(keepdim=True), lambda: x.sum(axis=1),
        lambda: x.prod((0, 1)), lambda: x.aminmax(dim=(0, 1)), lambda: x.tril(1.5), lambda: x.triu((1,)),
        lambda: T.where(x > 2, x), lambda: x.sum(1.0), lambda: x.max((0, 1)), lambda: x.topk(1.0),
        lambda: x.view(1.0), lambda: x.permute((0, 1.0)), lambda: T.arange("a"), lambda: T.linspace(0, 1, 2.5),
        lambda: T.eye(2.0), lambda: T.full((2,), "a"), lambda: T.randint("a", (2,)), lambda: T.zeros("a"),
        lambda: T.nn.Conv1d(1, 2, 3, stride=2, padding="same"), lambda: T.nn.Conv2d(1, 2, 3, padding="other"),
        lambda: F.conv1d(T.ones(1, 1, 5), T.ones(1, 1, 3), stride=2, padding="same"),
        lambda: F.conv2d(T.ones(1, 1, 5, 5), T.ones(1, 1, 3, 3), padding="other"),
        lambda: T.full((1,), 1e40), lambda: T.zeros(1).fill_(1e40), lambda: T.full((1,), 1e40, dtype=T.float16),
        lambda: T.tensor([1e40]), lambda: T.Tensor([1e40]), lambda: T.tensor([[1e300], [1]], dtype=T.float16),
    ):  # fmt: skip
        attempt_class(say, call)


@program
def places_of_wrong_indices(T: Any, say: Any) -> None:
    x, number = T.arange(6.0).reshape(2, 3), T.tensor(5.0)
    for call in (
        lambda: x[None, 5], lambda: x[None, 0, 7], lambda: x[0, None, 7], lambda: x[..., None, 5],
        lambda: x[None, [5]], lambda: x[[0], None, [5]], lambda: x[None, 0, [5]], lambda: x[:, [5]],
        lambda: x[[0], [5]], lambda: x.__setitem__((None, 5), 1.0), lambda: x.__setitem__((slice(None), [5]), 1.0),
        lambda: number[:], lambda: number[1:], lambda: number[:, None], lambda: number[..., :], lambda: number[0],
        lambda: x[1:1, None, [9]], lambda: x[:0, [9]].shape, lambda: x[..., ...], lambda: x[None, ..., ...].shape,
    ):  # fmt: skip
        attempt_text(say, call)
    attempt_class(say, lambda: x[..., ..., None])


@program
def reductions_over_no_axes(T: Any, say: Any) -> None:
    x = T.arange(6.0).reshape(2, 3)
    say(x.all(dim=()), x.any(()), x.all([]), x.all(dim=(), keepdim=True), x.byte().all(dim=()), x.all(), x.byte().any())
    say(x.sum(dim=()), x.mean(dim=()), x.amax(dim=()), x.std(dim=()), x.count_nonzero(dim=()))
    say(
        T.gradient(x),
        T.linalg.eig(T.eye(2)),
        T.linalg.inv_ex(T.eye(1)),
        T.linalg.cholesky_ex(T.eye(1)),
        T.svd(T.eye(1)),
    )


@program
def numbers_at_equal_distances(T: Any, say: Any) -> None:
    say(
        T.linspace(-1, 1, 21)[8:13].tolist(), T.linspace(1, 0, 7).tolist(), T.linspace(0.1, 0.7, 1000)[497:503].tolist()
    )
    say(T.linspace(-1.3, 1.1, 9, dtype=T.float64).tolist(), T.linspace(-2.7, 3, 33, dtype=T.float64).tolist())
    say(
        T.linspace(0, 3.3, 7, dtype=T.bfloat16),
        T.linspace(0, 1, 5, dtype=T.float16),
        T.linspace(-3, 10, 8, dtype=T.int64),
    )
    say(
        T.linspace(0, 1 + 2j, 4).tolist(),
        T.linspace(0, 1, 1),
        T.linspace(0, 1, 0),
        T.linspace(T.tensor(0.1), T.tensor(1), 3),
    )
    say(T.logspace(-1.3, 1.1, 9, dtype=T.float64), T.logspace(-1, 1, 7), T.logspace(0, 3, 4, dtype=T.int32))
    attempt_text(say, lambda: T.linspace(0, 1, -1))


@program
def copies_of_parameters(T: Any, say: Any) -> None:
    layer, x = T.nn.Linear(1, 1), T.ones(2, requires_grad=True)
    (layer(T.ones(1)) * x.sum()).sum().backward()
    say(copy.deepcopy(layer).weight.grad, copy.deepcopy(layer.bias).grad, copy.deepcopy(x).grad is not None)
    first, second = copy.deepcopy([layer.weight, layer.weight])
    say(first is second, first.requires_grad, first.grad)


@program
def hooks_of_a_view_after_a_write_into_a_part(T: Any, say: Any) -> None:
    def double(b: Any) -> None:
        b[0].mul_(2)

    def double_flat(b: Any) -> None:
        b.view(-1).mul_(2)

    def store(b: Any) -> None:
        b[0] = 5

    def several(b: Any) -> None:
        b.unsqueeze(0).add_(2).mul_(2)
        b[0].zero_()

    for write in (double, double_flat, store, several):
        for used_before in (False, True):
            seen: list[Any] = []
            x = T.arange(6.0, requires_grad=True)
            b = (x * 1).view(2, 3)
            b.register_hook(lambda ct: seen.append(ct.tolist()))
            before = b * 3 if used_before else None
            write(b)
            loss = (b * b).sum() if before is None else (b * b).sum() + before.sum()
            if before is None or write is not several:
                loss.backward()
            say(seen, x.grad)
