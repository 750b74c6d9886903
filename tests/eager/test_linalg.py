"""Factorizations and Fourier transforms of tensors: what is particular to the tape."""

import numpy as np
import pytest

import tracegrad as tg


def test_eigenvalues_alone_have_no_poles():
    a = tg.eye(3, dtype=tg.float64, requires_grad=True)
    values = tg.linalg.eigh(a).eigenvalues
    (values**2).sum().backward()
    np.testing.assert_allclose(a.grad.numpy(), 2 * np.eye(3))


def test_singular_values_alone_have_no_poles():
    a = tg.zeros(3, 2, dtype=tg.float64, requires_grad=True)
    tg.linalg.svd(a, full_matrices=False).S.sum().backward()
    assert np.isfinite(a.grad.numpy()).all()


def test_singular_vectors_without_values():
    a = tg.tensor(np.arange(6.0).reshape(3, 2) ** 2, requires_grad=True)
    u, _, vh = tg.linalg.svd(a, full_matrices=False)
    assert tg.autograd.gradcheck(lambda x: tg.linalg.svd(x, full_matrices=False).U[:, 0] ** 2, a)
    first = tg.autograd.grad((u @ vh).sum(), a, create_graph=True)[0]
    (second,) = tg.autograd.grad((first**2).sum(), a)
    assert np.isfinite(second.numpy()).all()


def test_the_null_vector_has_a_gradient():
    a = tg.tensor(np.arange(6.0).reshape(2, 3) ** 2, requires_grad=True)
    assert tg.autograd.gradcheck(lambda x: tg.linalg.svd(x).Vh[-1] ** 2, a)
    assert tg.autograd.gradgradcheck(lambda x: tg.linalg.svd(x).Vh[-1] ** 2, a)


def test_eigh_gives_its_gradient_to_the_whole_matrix():
    a = tg.tensor([[2.0, 9.0], [0.5, 1.0]], dtype=tg.float64, requires_grad=True)
    values = tg.linalg.eigvalsh(a)
    np.testing.assert_allclose(values.detach().numpy(), np.linalg.eigvalsh([[2.0, 0.5], [0.5, 1.0]]))
    values[1].backward()
    np.testing.assert_allclose(a.grad.numpy(), a.grad.numpy().T)


def test_node_names():
    a = tg.ones(2, 2, requires_grad=True)
    assert tg.linalg.eigh(a)[0].grad_fn.name() == "LinalgEighBackward0"
    assert tg.linalg.svdvals(a).grad_fn.name() == "LinalgSvdBackward0"
    assert tg.fft.rfft(a).grad_fn.name() == "FftR2CBackward0"


def test_sizes_of_transforms():
    x = tg.tensor(np.arange(12.0).reshape(3, 4), requires_grad=True)
    np.testing.assert_allclose(
        tg.fft.fft2(x, s=(2, 5)).detach().numpy(), np.fft.fft2(np.arange(12.0).reshape(3, 4), (2, 5))
    )
    with pytest.raises(RuntimeError, match="Invalid normalization mode"):
        tg.fft.fft(x, norm="none")


def test_the_triangle_of_a_wide_matrix() -> None:
    x = tg.arange(12.0, dtype=tg.float64).view(3, 4).sin().requires_grad_()
    q, r = tg.linalg.qr(x)
    assert tg.allclose(q @ r, x) and r.shape == (3, 4)
    (slope,) = tg.autograd.grad((r**2).sum(), x)
    assert tg.allclose(slope, 2 * x)
