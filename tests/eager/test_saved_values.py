"""Values that nodes saved, by torch's names; and tensors that get another shape in place."""

from __future__ import annotations

from typing import Any

import pytest

from tests.eager.torch_like import torch


def test_saved_values_of_the_tutorial() -> None:
    x = torch.randn(5, requires_grad=True)
    y = x.pow(2)
    assert x.equal(y.grad_fn._saved_self) and y.grad_fn._saved_self is x
    y = x.exp()
    assert y.equal(y.grad_fn._saved_result) and y.grad_fn._saved_result is not y
    assert y.grad_fn._saved_result.grad_fn is y.grad_fn
    a, b = torch.rand(2, 3, requires_grad=True), torch.rand(3, 4, requires_grad=True)
    product = (a @ b).grad_fn
    assert product._saved_self is a and product._saved_mat2 is b
    assert (x * y).grad_fn._saved_other.grad_fn is y.grad_fn


def test_saved_values_that_are_not_there() -> None:
    x = torch.ones(3, requires_grad=True)
    y = x.exp()
    with pytest.raises(
        AttributeError, match="'ExpBackward0' object has no attribute '_saved_self'; it saved _saved_res"
    ):
        _ = y.grad_fn._saved_self
    assert not hasattr(y.grad_fn, "anything")
    y.sum().backward()
    with pytest.raises(RuntimeError, match="directly access saved tensors after they have already been freed"):
        _ = y.grad_fn._saved_result
    z = x * 2
    w = z * z
    z.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        _ = w.grad_fn._saved_self


def test_shapes_changed_in_place() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    assert x.unsqueeze_(0) is x and x.shape == (1, 2, 3)
    assert x.squeeze_(0).t_().tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    plain = torch.zeros(2, 3)
    view = plain[0]
    plain.transpose_(0, 1).fill_(1.0)
    assert view.tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        torch.ones(2, requires_grad=True).unsqueeze_(0)


def test_a_view_of_what_got_another_shape_follows_a_write() -> None:
    x = torch.ones(2, 3, requires_grad=True)
    y = x * 2
    view = y[0]
    y.t_()
    (view * 1).sum().backward(retain_graph=True)
    assert x.grad.tolist() == [[2.0] * 3, [0.0] * 3]
    y.mul_(3)
    (view * 1).sum().backward()
    assert x.grad.tolist() == [[8.0] * 3, [0.0] * 3]


def test_a_write_into_a_view_of_what_got_another_shape() -> None:
    def gradient(change: Any, write: Any) -> Any:
        x = torch.arange(1.0, 10.0).view(3, 3).requires_grad_()
        base = x * 1.5
        view = base[1]
        change(base)
        write(view)
        (base.sum() + view.sum()).backward()
        return x.grad.tolist()

    changes = (
        lambda b: b.t_(), lambda b: b.swapaxes_(0, 1), lambda b: b.unsqueeze_(0), lambda b: b.squeeze_(),
        lambda b: b.t_().unsqueeze_(1).transpose_(0, 2),
    )  # fmt: skip
    for change in changes:
        assert gradient(change, lambda v: v[:1].fill_(7.0)) == [[1.5] * 3, [0.0, 3.0, 3.0], [1.5] * 3]
        assert gradient(change, lambda v: v[1:].mul_(2)) == [[1.5] * 3, [3.0, 6.0, 6.0], [1.5] * 3]


def test_a_write_into_a_view_whose_base_got_another_shape_where_nothing_is_recorded() -> None:
    x = torch.ones(2, requires_grad=True)
    base = torch.zeros(2, 3)
    view = base[0]
    with torch.no_grad():
        base.t_()
    view[1:] = x
    (base * torch.arange(6.0).view(3, 2)).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]
    leaf = torch.zeros(2, 3).t_().requires_grad_()
    row = leaf[0]
    with torch.no_grad():
        leaf.add_(1)
    (row * row).sum().backward()
    assert leaf.grad.tolist() == [[2.0, 2.0], [0.0, 0.0], [0.0, 0.0]] and leaf.is_leaf and not leaf._is_view()
    part = torch.ones(2, 3)
    first = part[0]
    part.as_strided_((2, 2), (2, 1))
    with pytest.raises(RuntimeError, match="make the view again"):
        first[0] = x[0]


def test_bounds_by_name() -> None:
    assert torch.arange(start=1, end=7, step=2).tolist() == [1, 3, 5]
    assert torch.arange(end=3).tolist() == torch.arange(3).tolist() == [0, 1, 2]
    assert torch.arange(1, end=3).tolist() == [1, 2]
    assert torch.arange(1, 3, step=1).tolist() == [1, 2]
    assert torch.arange(5, step=2).tolist() == [0, 2, 4]
    assert torch.arange(end=2.0).dtype == torch.float32
    drawn = torch.randint(low=2, high=4, size=(50,))
    assert set(drawn.tolist()) == {2, 3}
    assert set(torch.randint(high=2, size=(50,)).tolist()) == {0, 1}
    with pytest.raises(TypeError, match="arange\\(\\) got multiple values for argument 'end'"):
        torch.arange(1, 2, end=3)
    with pytest.raises(TypeError, match="end must be given"):
        torch.arange(start=1)
