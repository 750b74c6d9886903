"""Operations that tracegrad and torch must agree on: value, gradient, and gradient of the gradient."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# ruff: noqa: E501
import numpy as np


@dataclass(frozen=True)
class Case:
    """`call(torch, *tensors)` with tensors of these shapes, drawn from an interval."""

    name: str
    call: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    low: float = -2.0
    high: float = 2.0
    twice: bool = True
    complex: bool = False

    def arrays(self) -> list[np.ndarray]:
        rng = np.random.default_rng(sum(map(ord, self.name)))
        made = [rng.uniform(self.low, self.high, s) for s in self.shapes]
        return [a + 1j * rng.uniform(self.low, self.high, a.shape) for a in made] if self.complex else made


def case(
    text: str, *shapes: tuple[int, ...], low: float = -2.0, high: float = 2.0, twice: bool = True, complex: bool = False
) -> Case:
    """Make a case from the text of an expression in torch (`T`), torch.nn.functional (`F`) and tensors x, y, z."""
    names = "xyzw"[: len(shapes)]
    function = eval(f"lambda T, F, {', '.join(names)}: {text}")
    return Case(text, function, shapes, low, high, twice, complex)


M, V, S = (3, 4), (4,), ()
UNARY = [
    *[case(f"x.{n}()", M) for n in (
        "exp", "exp2", "expm1", "sin", "cos", "tanh", "sinh", "cosh", "sigmoid", "atan", "asinh", "erf", "erfc", "neg",
        "abs", "square", "relu", "floor", "ceil", "round", "trunc", "frac", "sign", "clone", "contiguous", "ravel",
    )],
    *[case(f"x.{n}()", M, low=0.2, high=3.0) for n in (
        "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal", "lgamma", "digamma",
    )],
    *[case(f"x.{n}()", M, low=-0.9, high=0.9) for n in ("asin", "acos", "atanh", "tan", "erfinv")],
    case("x.acosh()", M, low=1.2, high=3.0),
]  # fmt: skip
BINARY = [
    case("x + y", M, V), case("x - y", M, (3, 1)), case("x * y", M, M), case("x / y", M, V, low=0.3), case("3 - x", M),
    case("2 / x", M, low=0.3), case("x * 2.5 + 1", M), case("T.add(x, y, alpha=3)", M, V), case("x ** 2", M),
    case("x ** 3", M), case("x ** -1", M, low=0.3), case("x ** 2.5", M, low=0.3), case("x ** 0", M),
    case("x ** y", M, M, low=0.3), case("2.0 ** x", M), case("x % 1.5", M), case("T.fmod(x, 1.5)", M),
    case("T.maximum(x, y)", M, V), case("T.minimum(x, y)", M, V), case("T.atan2(x, y)", M, M), case("T.hypot(x, y)", M, M),
    case("T.logaddexp(x, y)", M, M), case("T.where(x > 0, x, y)", M, M), case("x.clamp(-0.5, 0.7)", M),
    case("x.clamp(min=y)", M, M), case("T.lerp(x, y, 0.3)", M, M), case("T.addcmul(x, y, z, value=2)", M, M, M),
    case("T.addcdiv(x, y, z)", M, M, M, low=0.3), case("x.masked_fill(x > 0, 3.0)", M), case("T.copysign(x, y)", M, M),
    case("T.xlogy(x, y)", M, M, low=0.2),
]  # fmt: skip
REDUCTIONS = [
    case("x.sum()", M), case("x.sum(1)", M), case("x.sum((0, 1))", M), case("x.sum(0, keepdim=True)", M),
    case("x.mean()", M), case("x.mean(-1)", M), case("x.var()", M), case("x.std()", M), case("x.var(1, unbiased=False)", M),
    case("x.std(0, keepdim=True)", M), case("x.prod()", M), case("x.prod(1)", M), case("x.max()", M), case("x.min()", M),
    case("x.max(1).values", M), case("x.min(0)[0]", M), case("x.max(1, keepdim=True)[0]", M), case("x.amax(1)", M),
    case("x.amin((0, 1))", M), case("x.logsumexp(1)", M), case("x.norm()", M), case("x.norm(1)", M), case("x.norm(p=3)", M),
    case("x.norm(dim=1)", M), case("x.cumsum(1)", M), case("x.cumprod(1)", M), case("x.cummax(1).values", M),
    case("x.sort(1).values", M), case("x.sort(0, descending=True)[0]", M), case("x.topk(2, 1).values", M),
    case("x.median()", M), case("x.median(1).values", M), case("x.logcumsumexp(1)", M), case("x.diff()", M),
    case("T.trace(x)", M), case("T.dist(x, y)", M, M), case("x.softmax(1)", M), case("x.log_softmax(0)", M),
    case("x.kthvalue(2, 1).values", M),
]  # fmt: skip
SHAPES = [
    case("x.reshape(4, 3) * y", M, (3,)), case("x.view(-1)", M), case("x.T @ x", M), case("x.permute(1, 0) * y", M, (3,)),
    case("x.transpose(0, 1).reshape(12)", M), case("x.unsqueeze(1) * x", M), case("x.squeeze()", (3, 1, 2)),
    case("x.expand(2, 3, 4).sum(0) * x", M), case("x.flatten()", M), case("T.cat([x, y], 1)", M, (3, 2)),
    case("T.stack([x, y], 1)", M, M), case("x.split(2, 1)[1] * 2", M), case("x.chunk(2, 0)[0]", M),
    case("x.unbind(1)[2]", M), case("x.flip(0, 1)", M), case("x.roll(1, 0)", M), case("x.tril()", M), case("x.triu(1)", M),
    case("x.repeat(2, 3)", M), case("x.repeat_interleave(2, 1)", M), case("T.diag(x)", V), case("x.diagonal()", M),
    case("x.movedim(0, 1)", M), case("x.narrow(1, 1, 2)", M), case("x.unfold(1, 2, 1)", M), case("T.hstack([x, y])", M, M),
    case("x.select(1, 2)", M), case("T.broadcast_to(x, (2, 3, 4))", M),
]  # fmt: skip
INDEXING = [
    case("x[1]", M), case("x[:, 1:3]", M), case("x[..., -1]", M), case("x[None, ::2]", M), case("x[1, 2]", M),
    case("x[[0, 2, 0]]", M), case("x[T.tensor([0, 2]), T.tensor([1, 3])]", M), case("x[x > 0]", M),
    case("x[:, [1, 1]]", M), case("x.index_select(1, T.tensor([3, 0, 3]))", M),
    case("x.gather(1, T.tensor([[0, 1], [2, 3], [1, 1]]))", M),
    case("x.scatter(1, T.tensor([[0], [2], [1]]), y)", M, (3, 1)),
    case("x.scatter_add(1, T.tensor([[0, 0], [2, 1], [1, 1]]), y)", M, (3, 2)),
    case("x.index_add(0, T.tensor([2, 0]), y)", M, (2, 4)), case("T.masked_select(x, x > 0)", M), case("x.take(T.tensor([0, 5]))", M),
]  # fmt: skip
PRODUCTS = [
    case("x @ y", M, (4, 2)), case("x @ y", M, V), case("x @ y", V, V), case("x @ y", V, (4, 2)),
    case("x @ y", (5, 2, 3), (5, 3, 4)), case("x @ y", (5, 2, 3), (3, 4)), case("x @ y", (2, 5, 2, 3), (5, 3, 4)),
    case("T.mm(x, y)", M, (4, 2)), case("T.bmm(x, y)", (5, 2, 3), (5, 3, 4)), case("T.mv(x, y)", M, V),
    case("T.dot(x, y)", V, V), case("T.outer(x, y)", V, (3,)), case("T.addmm(x, y, z, beta=2, alpha=3)", (3, 2), M, (4, 2)),
    case("T.einsum('ij,jk->ik', x, y)", M, (4, 2)), case("T.einsum('bij,bjk->bk', x, y)", (5, 2, 3), (5, 3, 4)),
    case("T.tensordot(x, y, 1)", M, (4, 2)), case("T.kron(x, y)", (2, 2), (2, 3)), case("T.cross(x, y, dim=1)", (2, 3), (2, 3)),
]  # fmt: skip
FUNCTIONAL = [
    *[case(f"F.{n}(x)", M) for n in (
        "gelu", "softplus", "leaky_relu", "elu", "celu", "selu", "silu", "mish", "hardtanh", "relu6",
        "logsigmoid", "softsign", "tanhshrink", "relu", "sigmoid", "tanh",
    )],
    case("F.gelu(x, approximate='tanh')", M), case("F.glu(x, 1)", M), case("F.softmin(x, 1)", M),
    *[case(f"F.{n}(x, y{r})", M, M) for n in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
      for r in ("", ", reduction='sum'", ", reduction='none'")],
    case("F.smooth_l1_loss(x, y, beta=0.5)", M, M),
    case("F.binary_cross_entropy(x, y)", M, M, low=0.1, high=0.9),
    case("F.binary_cross_entropy_with_logits(x, T.sigmoid(y))", M, M),
    case("F.binary_cross_entropy_with_logits(x, T.sigmoid(y), weight=T.ones(4, dtype=x.dtype) * 2, pos_weight=T.ones(4, dtype=x.dtype) * 3)", M, M),
    case("F.cross_entropy(x, T.tensor([0, 3, 1]))", M), case("F.cross_entropy(x, T.tensor([0, -100, 1]), reduction='sum')", M),
    case("F.cross_entropy(x, T.tensor([0, 3, 1]), label_smoothing=0.1)", M), case("F.cross_entropy(x, y.softmax(1))", M, M),
    case("F.cross_entropy(x, T.tensor([0, 3, 1]), weight=T.tensor([1.0, 2.0, 3.0, 4.0], dtype=x.dtype))", M),
    case("F.nll_loss(x.log_softmax(1), T.tensor([0, 3, 1]))", M), case("F.kl_div(x.log_softmax(1), y.softmax(1), reduction='batchmean')", M, M),
    case("F.linear(x, y, z)", M, (2, 4), (2,)), case("F.linear(x, y)", (2, 3, 4), (2, 4)),
    case("F.layer_norm(x, (4,), y, z)", M, V, V), case("F.group_norm(x, 2, y, z)", (2, 4, 3), V, V),
    case("F.batch_norm(x, None, None, y, z, training=True)", (5, 4), V, V),
    case("F.conv1d(x, y, z)", (2, 3, 7), (4, 3, 3), (4,)), case("F.conv1d(x, y, stride=2, padding=1)", (2, 3, 7), (4, 3, 3)),
    case("F.conv2d(x, y, z, padding=1)", (2, 3, 5, 4), (4, 3, 3, 3), (4,)),
    case("F.conv2d(x, y, stride=2, dilation=2, padding=2)", (1, 2, 7, 6), (3, 2, 3, 2)),
    case("F.conv2d(x, y, groups=2)", (1, 4, 4, 4), (6, 2, 3, 3)), case("F.max_pool2d(x, 2)", (2, 3, 4, 6)),
    case("F.max_pool2d(x, 3, stride=1, padding=1)", (1, 2, 4, 4)), case("F.avg_pool2d(x, 2)", (2, 3, 4, 6)),
    case("F.avg_pool2d(x, 3, 2, 1)", (1, 2, 5, 5)), case("F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)", (1, 2, 5, 5)),
    case("F.adaptive_avg_pool2d(x, 2)", (1, 2, 4, 4)), case("F.embedding(T.tensor([0, 2, 0]), x)", M),
    case("F.normalize(x)", M), case("F.pad(x, (1, 2, 0, 1), value=3.0)", M), case("F.cosine_similarity(x, y)", M, M),
    case("F.pairwise_distance(x, y)", M, M), case("F.scaled_dot_product_attention(x, y, z)", (2, 3, 4), (2, 5, 4), (2, 5, 6)),
    case("F.scaled_dot_product_attention(x, y, z, is_causal=True)", (2, 3, 4), (2, 3, 4), (2, 3, 6)),
]  # fmt: skip
BUILDING = [
    case("T.nan_to_num(x + (x.detach() - 1) / (x.detach() > 0), nan=2.0, posinf=3.0)", M), case("x.nan_to_num()", M), case("T.diag_embed(x)", M),
    case("T.diag_embed(x, 1, 0, 2)", M), case("T.diag_embed(x, -2)", V), case("T.block_diag(x, y, z)", M, V, (2, 1)),
    case("T.vander(x.detach()) * x", V), case("T.vander(x.detach(), 3, increasing=True)", V), case("T.rot90(x)", M), case("x.rot90(3, (1, 0))", M),
    case("T.rot90(x, 2)", M), case("x * T.tril_indices(3, 4, 1)[0][:4] + T.triu_indices(3, 4)[1][:4]", M),
    case("T.cartesian_prod(x, y)", V, (3,)), case("T.combinations(x)", V), case("T.combinations(x, 3, True)", V),
    case("T.trapezoid(x, y)", M, M), case("T.trapezoid(x, dx=0.5, dim=0)", M), case("T.trapezoid(x, y, dim=0)", M, (3,)),
    case("x.quantile(0.3)", M), case("T.quantile(x, T.tensor([0.1, 0.6], dtype=x.dtype), 1)", M),
    case("T.quantile(x, 0.7, 0, keepdim=True)", M), case("T.quantile(x, 0.4, 1, interpolation='midpoint')", M),
    case("T.quantile(x, 0.4, 1, interpolation='lower')", M), case("T.cdist(x, y)", M, (2, 4), twice=False), case("T.cdist(x, y, 1.0)", (2, 3, 4), (2, 2, 4), twice=False),
    case("T.logit(x)", M, low=0.1, high=0.9), case("x.logit(0.3)", M, low=0.1, high=0.9), case("T.sinc(x)", M),
    case("T.atleast_2d(x) * T.atleast_1d(y)", V, V), case("T.dstack([x, y])", M, M), case("T.column_stack([x, y])", V, V),
]  # fmt: skip
RESAMPLING = [
    *[case(f"F.pad(x, (1, 2), mode='{m}')", (2, 3, 5)) for m in ("reflect", "replicate", "circular")],
    case("F.pad(x, (1, 2, 0, 1), mode='reflect')", (2, 3, 4, 5)), case("F.interpolate(x, scale_factor=2)", (2, 3, 4)),
    case("F.interpolate(x, size=(5, 3))", (1, 2, 3, 4)), case("F.interpolate(x, scale_factor=2, mode='bilinear')", (1, 2, 3, 4)),
    case("F.interpolate(x, size=(5, 7), mode='bilinear', align_corners=True)", (1, 2, 3, 4)), case("F.interpolate(x, scale_factor=1.5, mode='linear')", (1, 2, 5)),
    case("F.interpolate(x, size=3, mode='area')", (1, 2, 5)), case("F.adaptive_avg_pool1d(x, 3)", (1, 2, 5)),
    case("F.adaptive_avg_pool2d(x, (3, 2))", (1, 2, 5, 7)), case("F.adaptive_avg_pool2d(x, (None, 2))", (1, 2, 5, 7)),
    case("F.pixel_shuffle(x, 2)", (1, 8, 2, 3)), case("F.rms_norm(x, (4,), y)", M, V), case("F.rms_norm(x, (3, 4), eps=0.1)", (2, 3, 4)),
    case("F.instance_norm(x, weight=y, bias=z)", (2, 3, 4), (3,), (3,)), case("F.instance_norm(x)", (2, 3, 4, 2)),
    case("F.margin_ranking_loss(x, y, T.tensor([1.0, -1.0, 1.0, -1.0], dtype=x.dtype), margin=0.5)", V, V),
    case("F.cosine_embedding_loss(x, y, T.tensor([1.0, -1.0, 1.0], dtype=x.dtype), margin=-0.5)", M, M),
    case("F.triplet_margin_loss(x, y, z, margin=2.0)", M, M, M), case("F.triplet_margin_loss(x, y, z, swap=True, p=1, reduction='none')", M, M, M),
    case("F.poisson_nll_loss(x, T.ones_like(x) * 2)", M, low=0.2), case("F.poisson_nll_loss(x, T.ones_like(x) * 4, log_input=False, full=True)", M, low=0.2),
    case("F.gaussian_nll_loss(x, y, z)", M, M, M, low=0.2), case("F.gaussian_nll_loss(x, y, z, full=True)", M, M, M, low=0.2),
]  # fmt: skip
SPD = "(x @ x.mT + 3 * T.eye(3, dtype=x.dtype))"
Q = (3, 3)
LINALG = [
    case("T.norm(x, 'nuc')", Q),
    case("T.norm(x, 'nuc', dim=(0, 2), keepdim=True)", (3, 2, 4)),
    case("T.linalg.cross(x, y)", Q, Q),
    case("T.linalg.cross(x, y, dim=0)", Q, (3, 1)),
    case("T.linalg.cross(x, y)", (1, 3), (2, 3)),
    case("T.linalg.inv(x + 4 * T.eye(3, dtype=x.dtype))", Q),
    case("T.linalg.det(x)", (2, 3, 3)),
    case("T.linalg.slogdet(x)[1]", Q),
    case("T.linalg.solve(x + 4 * T.eye(3, dtype=x.dtype), y)", Q, (3, 2)),
    case("T.linalg.solve(x + 4 * T.eye(3, dtype=x.dtype), y)", Q, (3,)),
    case(f"T.linalg.cholesky({SPD})", Q),
    case(f"T.linalg.eigh({SPD})[0]", Q),
    case(f"T.linalg.eigh({SPD})[1].abs()", Q),
    case("T.linalg.svdvals(x)", (4, 3)),
    case("T.linalg.svd(x, full_matrices=False)[0].abs()", (4, 3)),
    case("(lambda r: (r[0] * r[1]) @ r[2] @ y)(T.linalg.svd(x, full_matrices=False))", (3, 4), (4, 2)),
    case("T.linalg.eigvalsh(x + x.mT)", (2, 3, 3)),
    case("T.linalg.eigvalsh(T.diag(x) * 0 + T.eye(3, dtype=x.dtype)).pow(2).sum()", (3,), twice=False),
    case("T.linalg.svd(x)[1]", (4, 3)),
    case("T.linalg.svd(x)[0].abs()", Q),
    case("T.linalg.svd(x, full_matrices=False)[2].abs()", (2, 3, 4)),
    case("T.linalg.svdvals(x * 0 + 1).sum()", (3, 1)),
    case("T.linalg.matrix_norm(x, 'nuc')", (2, 3, 4)),
    case("T.linalg.qr(x)[1]", (3, 4)),
    case("T.linalg.qr(x)[0] @ T.linalg.qr(x)[1].sin()", (2, 4, 3)),
    case("T.linalg.pinv(x, rcond=0.1)", (4, 3)),
    case("T.linalg.pinv(x @ y)", (4, 1), (1, 3)),
    case("T.linalg.qr(x)[1]", (4, 3)),
    case("T.linalg.qr(x)[0]", (3, 3)),
    case("T.linalg.qr(x)[0]", (4, 3)),
    case("T.linalg.pinv(x)", (4, 3)),
    case("T.linalg.pinv(x)", (2, 3)),
    case("T.linalg.norm(x)", M),
    case("T.linalg.norm(x, dim=1)", M),
    case("T.linalg.norm(x, 'nuc')", M),
    case("T.linalg.norm(x, 2)", M),
    case("T.linalg.norm(x, 1)", M),
    case("T.linalg.norm(x, float('inf'))", M),
    case("T.linalg.matrix_power(x, 3)", Q),
    case("T.linalg.cond(x)", Q),
    case("T.linalg.vector_norm(x, 3)", M),
    case("T.linalg.multi_dot([x, y])", M, (4, 2)),
    case("T.linalg.inv(x)", Q, complex=True),
    case("T.linalg.eigh(x @ x.mH)[0]", Q, complex=True),
    case("T.linalg.eigh(x)[1].abs()", Q, complex=True),
    case("T.linalg.svdvals(x)", (3, 2), complex=True),
    case("T.linalg.svd(x, full_matrices=False)[0].abs()", (3, 2), complex=True),
    case("T.linalg.qr(x)[0].abs()", (3, 2), complex=True),
    case("T.linalg.pinv(x)", (3, 2), complex=True),
    case("(lambda r: (r[0] * r[1]) @ r[2] * x)(T.linalg.svd(x, full_matrices=False))", Q, complex=True, twice=False),
    case("T.linalg.solve(x, y)", Q, (3, 2), complex=True),
]
FFT = [
    case("T.fft.fft(x)", M),
    case("T.fft.ifft(x, dim=0)", M),
    case("T.fft.fft(x, n=3, norm='ortho')", M),
    case("T.fft.fft(x, n=6)", M),
    case("T.fft.rfft(x)", M),
    case("T.fft.irfft(x, n=5)", M, complex=True),
    case("T.fft.irfft(x)", M, complex=True),
    case("T.fft.fft2(x).abs()", M),
    case("T.fft.fft2(x, s=(2, 5))", M),
    case("T.fft.ifft2(x, norm='ortho')", M, complex=True),
    case("T.fft.fftn(x, dim=(0,))", M),
    case("T.fft.ifftn(T.fft.fftn(x) ** 2).real", M),
    case("T.fft.fftshift(T.fft.fft(x))", M),
    case("T.fft.fft(x)", M, complex=True),
    case("T.fft.rfft(x, norm='forward')", M),
]
COMPLEX = [
    *[case(text, M, complex=True) for text in ("x.exp2()", "x.sinc()", "x.logcumsumexp(1)")],
    case("T.logaddexp(x, y)", M, V, complex=True),
    *[case(f"x.{n}()", M, complex=True) for n in ("exp", "sin", "cosh", "abs", "conj", "reciprocal", "square", "sqrt", "log", "tanh", "sum", "mean", "prod", "var")],
    case("x * y", M, M, complex=True), case("x / y", M, M, complex=True), case("x @ y", M, (4, 2), complex=True),
    case("x.real * x.imag", M, complex=True), case("x ** 2", M, complex=True), case("T.angle(x)", M, complex=True, twice=False),
    case("(x.abs() ** 2).sum()", M, complex=True), case("x.norm()", M, complex=True), case("x.cumsum(0)", M, complex=True),
]  # fmt: skip
IN_PLACE = [
    case("x.clone().add_(y)", M, V), case("x.clone().mul_(y).exp_()", M, M), case("x.clone().sub_(y, alpha=2)", M, M),
    case("x.clone().div_(y)", M, M, low=0.3), case("x.clone().clamp_(-1, 1)", M), case("x.clone().zero_() + x", M),
    case("x.clone().fill_(2.0) * x", M), case("x.clone().copy_(y) * x", M, V), case("x.clone().relu_()", M),
    case("x.clone().sigmoid_()", M), case("(lambda c: (c[0].mul_(y), c)[1])(x.clone())", M, V),
    case("(lambda c: (c.__setitem__(0, y), c)[1])(x.clone())", M, V),
    case("(lambda c: (c.__setitem__((slice(None), 1), 5.0), c)[1])(x.clone())", M),
    case("(lambda c: (c.__setitem__(c > 0, 0.5), c)[1])(x.clone())", M),
    case("(lambda c: (c.__setitem__(T.tensor([0, 2]), y), c)[1])(x.clone())", M, (2, 4)),
    case("(lambda c: (c.t()[1].add_(y), c.view(-1).mul_(2), c)[2])(x.clone())", M, (3,)),
    case("(lambda c: (lambda v: (c.mul_(2), v * x[1])[1])(c[1]))(x.clone())", M),
    case("(lambda c: (c[1:, ::2][0].mul_(3), c)[1])(x.clone())", M),
    case("(lambda c: (c.diagonal().add_(y), c)[1])(x.clone())", M, (3,)),
    case("x.clone().masked_fill_(x > 0, 2.0)", M), case("x.clone().pow_(3)", M), case("x.clone().tril_()", M),
    case("x.clone().index_add_(0, T.tensor([0, 0]), y)", M, (2, 4)), case("x.clone().addcmul_(y, z)", M, M, M),
]  # fmt: skip
ACTIVATIONS = (
    "leaky_relu",
    "elu",
    "selu",
    "celu",
    "hardtanh",
    "relu6",
    "silu",
    "mish",
    "hardswish",
    "relu",
    "rrelu",
)
GIVEN_IN_ORDER = [
    *[case(f"F.{n}(x * 2, inplace=True) * x", M) for n in ACTIVATIONS],
    *[case(f"F.{n}_(x * 2)", M) for n in ("relu", "leaky_relu", "elu", "selu", "celu", "hardtanh", "rrelu")],
    case("F.threshold_(x * 2, 0.3, -1.0)", M), case("F.threshold(x * 2, 0.3, -1.0, True)", M),
    case("(lambda c: (F.elu(c[1], 0.5, True), c)[1])(x * 2)", M), case("F.leaky_relu(x, 0.1, False)", M),
    case("F.leaky_relu_(x * 2, 0.1)", M), case("F.elu(x * 2, 0.7, True)", M), case("F.celu_(x * 2, 0.5)", M),
    case("F.hardtanh(x, -0.5, 0.7, False)", M), case("F.hardtanh_(x * 2, -0.5, 0.7)", M), case("F.selu(x * 2, True)", M),
    case("F.softplus(x, 2.0, 1.5)", M), case("F.gelu(x, approximate='tanh')", M), case("F.log_softmax(x, 0, 3, T.float64)", M),
    case("F.softmax(x, 1, 3, T.float64)", M), case("F.softmin(x, 0, 3, T.float64)", M), case("F.rrelu(x, 0.1, 0.5)", M),
    *[case(f"F.{n}(x, y, None, None, 'sum')", M, M) for n in ("mse_loss", "l1_loss", "smooth_l1_loss")],
    case("F.kl_div(x, y, None, None, 'sum')", M, M, low=0.1),
    case("F.soft_margin_loss(x, y.detach(), None, None, 'sum')", M, M),
    case("F.mse_loss(x, y, weight=z)", M, M, M, low=0.2), case("F.l1_loss(x, y, None, None, 'mean', z)", M, M, M, low=0.2),
    case("F.mse_loss(x, y, reduction='none', weight=z)", M, M, M), case("F.huber_loss(x, y, 'mean', 0.5, z)", M, M, M),
    case("F.smooth_l1_loss(x, y, None, None, 'mean', 0.5)", M, M), case("F.binary_cross_entropy(x, y, z.detach(), None, None, 'sum')", M, M, M, low=0.1, high=0.9),
    case("F.binary_cross_entropy_with_logits(x, y, None, None, None, 'sum', z.detach())", M, M, V, low=0.1, high=0.9),
    case("F.cross_entropy(x, T.tensor([0, 3, 1]), None, None, 1, None, 'sum', 0.1)", M),
    case("F.nll_loss(x, T.tensor([0, 3, 1]), None, None, 1, None, 'sum')", M),
    case("F.poisson_nll_loss(x, y, True, False, None, 1e-8, None, 'sum')", M, M, low=0.2), case("F.hinge_embedding_loss(x, T.ones_like(x), 1.0, None, None, 'sum')", M),
    case("F.gaussian_nll_loss(x, y, 0.5)", M, M), case("F.triplet_margin_with_distance_loss(x, y, z)", M, M, M),
    case("F.max_pool1d(x, 2, ceil_mode=True)", (2, 3, 5)), case("F.max_pool2d(x, 3, 2, 1, 1, True)", (1, 2, 6, 5)),
    case("F.max_pool2d(x, 2, return_indices=True)[0]", (1, 2, 4, 4)), case("F.avg_pool2d(x, 3, 2, 1, True)", (1, 2, 6, 5)),
    case("F.max_pool2d(x, 3, 2, 1, 2, return_indices=True)[1] * x.sum()", (1, 2, 7, 7)),
    case("F.avg_pool2d(x, 3, 2, 1, True, False)", (1, 2, 6, 5)), case("F.avg_pool2d(x, 3, divisor_override=2)", (1, 2, 6, 5)),
    case("F.avg_pool1d(x, 2, 2, 0, True)", (2, 3, 5)), case("F.adaptive_max_pool1d(x, 3)", (2, 3, 7)),
    case("F.adaptive_max_pool2d(x, (2, None))", (1, 2, 5, 4)), case("F.adaptive_max_pool2d(x, 3, True)[1] * x.sum()", (1, 2, 5, 4)),
    case("F.pixel_unshuffle(x, 2)", (1, 2, 4, 6)), case("F.scaled_dot_product_attention(x, y, y, enable_gqa=True)", (2, 4, 3, 5), (2, 2, 3, 5), twice=False),
]  # fmt: skip
LATE = [
    *[case(f"(x * 2).{n}_({a})", M) for n, a in (
        ("cumsum", "1"), ("cumprod", "0"), ("unsqueeze", "1"), ("t", ""), ("transpose", "0, 1"), ("swapaxes", "0, 1"), ("sinc", ""),
        ("fill_diagonal", "3.0"), ("multiply", "x"), ("subtract", "x, alpha=2"), ("divide", "x + 5"), ("atan2", "x + 3"), ("gt", "0.5"),
        ("masked_scatter", "x > 0, x.flip(0)"), ("addmm", "x, x.t() @ x"), ("squeeze", ""), ("hypot", "x + 3"),
    )],
    case("(x * 2).unsqueeze_(0).mul_(y) * x", M, V), case("(lambda c: (c[0].unsqueeze_(0).mul_(y), c)[1])(x * 2)", M, V),
    case("(lambda c: (c.t_()[1].mul_(2), c)[1])(x * 2)", M), case("T.exp_(x * 2)", M), case("T.relu_(x * 2)", M),
    case("(x * 2).unsqueeze(0).squeeze_(0).unsqueeze_(-1)", M), case("(lambda c: (c.fill_diagonal_(2.0, wrap=True), c)[1])(x * 2)", (7, 3)),
    case("x.diff(prepend=y, append=y[:, :1])", M, (3, 2)), case("x.diff(2, 0, prepend=y)", M, (2, 4)),
    case("T.einsum(x, [0, 1], y, [1, 2], [0, 2])", M, (4, 2)), case("T.einsum(x, [0, 1], y, [1, 2])", M, (4, 2)),
    case("T.einsum(x, [..., 0], y, [0], [...])", (2, 3, 4), V), case("x * T.bincount(T.tensor([0, 3, 3]), y.detach(), 4)", M, (3,)),
    case("x.det()", Q), case("x.inverse()", Q), case("x.slogdet()[1]", Q), case("x.matrix_power(3)", Q), case("(x @ x.T).logdet()", Q),
    case("x.pinverse()", M), case("T.svd(x)[1]", M), case("(lambda r: (r[0] * r[1]) @ r[2].T * x)(x.svd())", M), case("T.qr(x)[1]", (4, 3)),
    case("T.cholesky(x @ x.T + T.eye(3, dtype=x.dtype), upper=True)", Q), case("T.linalg.diagonal(x)", (2, 3, 3)),
    case("T.cholesky_solve(y, T.linalg.cholesky(x @ x.T + 3 * T.eye(3, dtype=x.dtype)))", Q, (3, 2)),
    case("T.cholesky_inverse(T.linalg.cholesky(x @ x.T + 3 * T.eye(3, dtype=x.dtype)))", Q),
    case("T.cholesky_solve(y, (x @ x.T + 3 * T.eye(3, dtype=x.dtype)).cholesky(True), True)", Q, (3, 2)),
    case("T.linalg.eigvals(x).abs().sum()", Q), case("T.linalg.eigvals(x).pow(2).sum().real", Q), case("T.linalg.eig(x)[1].abs()", Q, twice=False),
    case("(lambda r: ((r[1] * r[0].exp()) @ T.linalg.inv(r[1])).real)(T.linalg.eig(x))", Q, twice=False),
    case("T.linalg.eigvals(x).abs().sum()", Q, complex=True), case("T.linalg.eig(x)[1].abs()", (2, 3, 3), complex=True, twice=False),
    case("(lambda c: (setattr(c, 'real', c.imag * 2), c)[1])(x * 2)", M, complex=True), case("(lambda c: (setattr(c, 'imag', 3.0), c)[1])(x * 2)", M, complex=True),
    case("(lambda c: (c.real.mul_(2), c)[1])(x * 2)", M, complex=True), case("(lambda c: (c.imag[1].exp_(), c)[1])(x * 2)", M, complex=True),
    case("(lambda c: (c[1:, 0].real.copy_(c[0, :2].imag), c)[1])(x * 2)", M, complex=True), case("(lambda c: (c.t().imag[0].zero_(), c)[1])(x * 2)", M, complex=True),
    case("T.selu(x) + T.celu(x)", M), case("T.threshold(x, 0.2, 0.1)", M), case("T.prelu(x, y)", M, V), case("T.selu_(x * 2)", M),
    case("T.unique_consecutive(T.tensor([1, 1, 2, 2, 1]), return_counts=True)[1] * x.sum()", M),
    case("T.unique(T.tensor([[3, 1], [1, 3], [3, 1]]), dim=0, return_inverse=True)[1] * x.sum()", M),
]  # fmt: skip
ADDED = [
    case("F.hardswish(x)", M), case("F.hardshrink(x, 0.7)", M), case("F.softshrink(x, 0.3)", M),
    case("F.soft_margin_loss(x, T.sign(y).detach())", M, M), case("F.multilabel_soft_margin_loss(x, (y > 0) * 1.0)", M, M),
    case("F.multilabel_soft_margin_loss(x, (y > 0) * 1.0, z.detach(), reduction='sum')", M, M, V),
    case("F.bilinear(x, y, z)", (2, 3), (2, 4), (5, 3, 4)),
    case("T.sgn(x)", M), case("T.heaviside(x.detach(), y.detach()) * x", M, V), case("T.fliplr(x)", M), case("x.flipud()", M),
    case("T.float_power(x, 2)", M), case("x.float_power(y)", M, V, low=0.3), case("T.float_power(2.0, x)", M),
    case("x.index_put((T.tensor([0, 2]),), y)", M, (2, 4)),
    case("x.index_put((T.tensor([0, 0]),), y, accumulate=True)", M, (2, 4)),
    case("T.slice_scatter(x, y, 1, 0, None, 2)", M, (3, 2)), case("x.slice_scatter(y, 0, 1)", M, (2, 4)),
    case("T.select_scatter(x, y, 1, 2)", M, (3,)), case("x.tile(2, 1)", M), case("T.tile(x, (3,))", M),
    case("T.cumulative_trapezoid(x, dim=0)", M), case("T.cumulative_trapezoid(x, y.cumsum(0))", M, V, low=0.3),
    case("T.stack(T.gradient(x))", (3, 3)), case("T.gradient(x, spacing=0.5, dim=1, edge_order=2)[0]", M),
    case("T.gradient(x, spacing=(T.tensor([0.0, 1.0, 3.0, 3.5]).to(x.dtype),), dim=1, edge_order=2)[0]", M),
    case("T.gradient(x, spacing=(T.tensor([0.0, 1.0, 3.0, 3.5]).to(x.dtype),), dim=1)[0]", M),
    case("T.cov(x)", M), case("x.cov(correction=0)", M), case("T.cov(x, fweights=T.tensor([1, 2, 1, 3]))", M),
    case("T.cov(x, aweights=T.tensor([0.5, 1.0, 2.0, 1.0]).to(x.dtype))", M), case("T.corrcoef(x)", M), case("T.cov(x)", V),
    case("T.polar(x.abs(), y).real + T.polar(x.abs(), y).imag", M, M), case("x.aminmax(dim=1).max - x.aminmax(dim=1).min", M),
    case("T.linalg.solve_triangular(x + 3 * T.eye(3).to(x.dtype), y, upper=True)", (3, 3), (3, 2)),
    case("T.linalg.solve_triangular(x, y, upper=False, unitriangular=True)", (3, 3), (3, 2)),
    case("T.linalg.solve_triangular(x + 3 * T.eye(3).to(x.dtype), y, upper=True, left=False)", (3, 3), (2, 3)),
    case("T.linalg.lstsq(x, y).solution", (5, 3), (5, 2)), case("T.linalg.lstsq(x, y).solution", (3, 3), (3, 2)),
    case("T.nn.utils.rnn.pad_sequence([x, y, z])", (2, 3), (4, 3), (1, 3)),
    case("T.nn.utils.rnn.pad_sequence([x, y], batch_first=True, padding_value=2.0, padding_side='left')", (2, 3), (4, 3)),
    case("T.det(x)", (3, 3)), case("T.inverse(x + 3 * T.eye(3).to(x.dtype))", (3, 3)), case("T.hsplit(x, 2)[1]", M),
    case("T.vsplit(x, (1,))[1]", M), case("T.tensor_split(x, (1, 3), 1)[1]", M), case("F.dropout2d(x, 0.0)", (2, 3, 4, 4)), case("F.cosine_similarity(x, y)", M, M),
]  # fmt: skip
ALL = [
    *UNARY,
    *GIVEN_IN_ORDER,
    *LATE,
    *BINARY,
    *REDUCTIONS,
    *SHAPES,
    *INDEXING,
    *PRODUCTS,
    *LINALG,
    *FFT,
    *FUNCTIONAL,
    *BUILDING,
    *RESAMPLING,
    *COMPLEX,
    *IN_PLACE,
    *ADDED,
]
