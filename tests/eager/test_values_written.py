"""Numbers that are written and drawn: of which dtype, into which tangent, by which randomness; and warnings."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from tests.eager.torch_like import torch
from tracegrad.runtime import creating, mirrors

F, func, fa = torch.nn.functional, torch.func, torch.autograd.forward_ad


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_the_least_square_of_rms_norm_is_that_of_single_precision_at_least(name: str) -> None:
    dtype = getattr(torch, name)
    x = torch.tensor([[1e-4, 2e-4, 3e-4]], dtype=dtype)
    least = torch.finfo(torch.promote_types(dtype, torch.float32)).eps
    expected = x.double() / ((x.double() ** 2).mean() + least) ** 0.5
    for found in (F.rms_norm(x, (3,)), torch.nn.RMSNorm(3, dtype=dtype)(x).detach()):
        assert found.dtype == dtype
        assert torch.allclose(found.double(), expected, rtol=2 * torch.finfo(dtype).eps)


def test_numbers_that_fit_are_written() -> None:
    x = torch.zeros(3)
    x[0], x[[1]], x[x < 0] = 1 + 0j, 2 + 0j, torch.tensor(3.0, dtype=torch.float64)
    assert x.tolist() == [1.0, 2.0, 0.0]
    x[x < 1] = torch.tensor(3 + 0j)
    x.index_put_((x > 2,), torch.tensor(4.0, dtype=torch.float64))
    assert x.masked_fill(x > 3, torch.tensor(5 + 0j)).tolist() == [1.0, 2.0, 5.0] and x[2] == 4
    text = "Casting complex values to real discards the imaginary part"
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", text)
        x[0] = torch.tensor(6 + 1j)
    assert x.tolist() == [6.0, 2.0, 4.0]


def test_a_write_into_a_dual_tensor_writes_its_tangent() -> None:
    with fa.dual_level():
        given = torch.arange(3.0)
        dual = fa.make_dual(torch.ones(3), given)
        dual.mul_(3)
        assert fa.unpack_dual(dual).tangent.tolist() == given.tolist() == [0.0, 3.0, 6.0]
        dual[1:].mul_(2)
        assert given.tolist() == [0.0, 6.0, 12.0]
        dual[1] = 5.0
        assert given.tolist() == [0.0, 0.0, 12.0]
        dual.zero_()
        assert given.tolist() == [0.0] * 3 and fa.unpack_dual(dual).tangent.tolist() == [0.0] * 3
        dual = fa.make_dual(torch.ones(2, 3), torch.arange(6.0).view(2, 3))
        row = dual[0]
        dual.t_()
        row.mul_(2)
        assert fa.unpack_dual(dual).tangent.tolist() == [[0.0, 3.0], [2.0, 4.0], [4.0, 5.0]]


def test_the_primal_of_a_dual_tensor_has_no_tangent() -> None:
    x = torch.ones(2, requires_grad=True)
    with fa.dual_level():
        primal = fa.unpack_dual(fa.make_dual(x, torch.ones(2)) * 2).primal
        assert fa.unpack_dual(primal).tangent is None and "tangent" not in str(primal)
        primal.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_randomness_of_vmap() -> None:
    x = torch.ones(4, 3)

    def draws(randomness: str, function: Any = lambda row: row + torch.rand(3)) -> Any:
        return func.vmap(function, randomness=randomness)(x)

    same, different = draws("same"), draws("different")
    assert (same == same[0]).all() and not (same == draws("same")).any()
    assert len({tuple(row) for row in different.tolist()}) == 4
    nested = draws("different", lambda row: func.vmap(lambda e: torch.rand(()), randomness="same")(row))
    assert (nested == nested[:, :1]).all() and len(set(nested[:, 0].tolist())) == 4
    with pytest.raises(RuntimeError, match="randomness error mode"):
        draws("error")
    assert draws("error", lambda row: F.dropout(row, training=False)).equal(x)
    assert torch.rand(2).shape == (2,)


def test_parameters_of_draws_by_name() -> None:
    x = torch.zeros(1000)
    assert x.uniform_(to=2.0, **{"from": 1.0}).min() >= 1 and x.max() < 2
    assert abs(float(x.normal_(std=0.1, mean=5.0).mean()) - 5) < 0.1
    assert x.normal_(2.0, std=0.0).tolist() == [2.0] * 1000
    assert x.bernoulli_(torch.ones(1000)).sum() == 1000


def test_a_gradient_that_is_deleted_is_none() -> None:
    x = torch.ones(2, requires_grad=True)
    (x * 2).sum().backward()
    del x.grad
    assert x.grad is None
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_a_function_whose_backward_gives_numbers_is_refused() -> None:
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, ct: Any) -> Any:
            return 2.0

    with pytest.raises(RuntimeError, match=r"expected Variable or None \(got float\)"):
        Doubled.apply(torch.ones(2, requires_grad=True)).sum().backward()


def test_powers_of_bools() -> None:
    x = torch.tensor([True, False])
    assert (x**True).tolist() == [True, False] and (x**False).tolist() == [True, True]
    assert torch.pow(x, True).dtype == torch.bool


def test_warnings_of_numbers_and_copies() -> None:
    x = torch.tensor(1.5, requires_grad=True)
    creating._warn_of_number.cache_clear()
    with pytest.warns(UserWarning, match="Converting a tensor with requires_grad=True to a scalar"):
        assert float(x) == 1.5
    assert int(x) == 1 and float(x.detach()) == 1.5  # it is said once
    with pytest.warns(UserWarning, match="To copy construct from a tensor"):
        assert torch.tensor(x).item() == 1.5


def test_densities_add_up_to_one_and_samples_have_the_means() -> None:
    D = torch.distributions
    torch.manual_seed(0)
    a, b = torch.tensor([0.7, 2.0, 3.5]), torch.tensor([1.5, 1.0, 0.5])
    places = torch.linspace(1e-4, 60.0, 120001).view(-1, 1)
    for made in (D.Gamma(a + 1, b), D.LogNormal(a / 4, b / 3)):
        assert torch.allclose(torch.trapezoid(made.log_prob(places).exp(), places, dim=0), torch.ones(3), atol=1e-3)
    line = torch.linspace(-400.0, 400.0, 200001).view(-1, 1)
    weights = D.StudentT(a + 3, a, b).log_prob(line).exp()
    assert torch.allclose(torch.trapezoid(weights, line, dim=0), torch.ones(3), atol=1e-3)
    counts = torch.arange(40.0).view(-1, 1)
    assert torch.allclose(D.Poisson(a).log_prob(counts).exp().sum(0), torch.ones(3))
    assert torch.allclose(D.Binomial(39, a / 4).log_prob(counts).exp().sum(0), torch.ones(3), atol=1e-4)
    for made in (D.Gamma(a, b), D.LogNormal(a, b / 3), D.StudentT(a + 5, a, b), D.Poisson(a), D.Binomial(5, a / 4)):
        drawn = made.sample((20000,))
        assert drawn.shape == (20000, 3)
        assert ((drawn.mean(0) - made.mean).abs() < 6 * made.stddev / 20000**0.5).all()


def test_a_buffer_is_found_among_attributes() -> None:
    module = torch.nn.Module()
    module.kept, module.passing = torch.nn.Buffer(torch.ones(2)), torch.nn.Buffer(torch.zeros(1), persistent=False)
    assert list(module.state_dict()) == ["kept"]
    assert [name for name, _ in module.named_buffers()] == ["kept", "passing"]
    assert isinstance(module.kept, torch.nn.Buffer) and not isinstance(torch.ones(1), torch.nn.Buffer)


def test_functions_of_complex_numbers() -> None:
    z = torch.tensor([1 + 2j, -0.5 + 0.1j], dtype=torch.complex128, requires_grad=True)
    assert torch.allclose(10 ** z.log10(), z) and torch.allclose(2 ** z.log2(), z)
    assert torch.allclose(z.sigmoid() * (1 + (-z).exp()), torch.ones_like(z))
    assert torch.allclose(torch.logsumexp(z, 0).exp(), z.exp().sum())
    assert torch.autograd.gradcheck(lambda x: (x.log10(), x.log2(), x.sigmoid(), x.logsumexp(0)), (z,))


def test_writes_from_outside_reach_conjugate_views() -> None:
    values = np.array([1 + 2j, 3 - 4j])
    x = torch.from_numpy(values)
    before = x.conj()

    def double(a: Any) -> None:
        a *= 2

    torch.function(double)(x)
    assert before.tolist() == [2 - 4j, 6 + 8j]
    torch.function(double)(before)
    assert x.tolist() == [4 + 8j, 12 - 16j]
    values[0] = 1j
    assert x.conj()[0] == before[0] == -1j
    leaf = before.detach().requires_grad_()
    assert torch.autograd.gradcheck(lambda c: c.conj() * c * c, (leaf,))
    assert torch.autograd.gradcheck(lambda c: c.mul(c.conj()).real + c.conj().imag, (leaf,), fast_mode=True)
    values.flags.writeable = False
    assert torch.from_numpy(values).conj().conj().tolist() == values.tolist()


def test_memory_has_one_mirror_as_long_as_that_is_seen() -> None:
    pairs, count = torch.arange(8.0), len(mirrors._pairs)
    small, large = torch.view_as_complex(pairs.view(4, 2)), torch.view_as_complex(pairs.double().view(4, 2))
    assert small.conj().untyped_storage().data_ptr() == pairs.data_ptr()
    again = torch.from_numpy(np.frombuffer(large.numpy().data, np.complex64).copy())
    kept = again.conj()
    wide = torch.from_numpy(again.numpy().view(np.complex128))
    with pytest.raises(RuntimeError, match="reads it as complex64"):
        wide.conj()
    del kept
    assert wide.conj().tolist() == large.conj().tolist()
    assert len(mirrors._pairs) == count


@pytest.mark.parametrize("cut", [lambda t: t, lambda t: t.detach(), lambda t: t.data, lambda t: t.view_as(t)])
def test_places_that_overlap_are_not_written(cut: Any) -> None:
    x = torch.arange(8.0)
    views = (
        x.as_strided((2, 2), (1, 1)), x.as_strided((3, 3), (2, 1)), x.unfold(0, 3, 1), x.expand(2, 8),
        x.view(4, 2).as_strided((2, 3), (2, 1)).t(),
    )  # fmt: skip
    for view in views:
        with pytest.raises(RuntimeError, match="more than one element"):
            cut(view).mul_(2)
    assert x.tolist() == list(range(8))
