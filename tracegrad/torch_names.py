"""torch's names at top level: where `import tracegrad as torch` finds them.

Read by tracegrad/__init__.py, which imports a name when it is first used. A test holds the list against the names that
runtime/ registers.
"""

from __future__ import annotations

from typing import Final

_NAMES: Final = """
BFloat16Tensor BoolTensor ByteTensor CharTensor DoubleTensor FloatTensor Generator HalfTensor IntTensor LongTensor
ShortTensor Size Tensor abs absolute acos acosh add addbmm addcdiv addcmul addmm addmv addr adjoint all allclose amax
amin aminmax angle any arange arccos arccosh arcsin arcsinh arctan arctan2 arctanh are_deterministic_algorithms_enabled
argmax argmin argsort argwhere as_strided as_strided_scatter as_tensor asarray asin asinh atan atan2 atanh atleast_1d
atleast_2d atleast_3d baddbmm bernoulli bfloat16 bincount binomial bitwise_and bitwise_left_shift bitwise_not bitwise_or
bitwise_right_shift bitwise_xor blackman_window block_diag bmm bool broadcast_shapes broadcast_tensors broadcast_to
bucketize can_cast cartesian_prod cat cdist cdouble ceil cfloat chain_matmul channels_last channels_last_3d chunk clamp
clamp_max clamp_min clip clone column_stack combinations complex complex128 complex64 concat concatenate conj
conj_physical conj_physical_ contiguous_format copysign corrcoef cos cosh cosine_similarity count_nonzero cov cross
cummax cummin cumprod cumsum cumulative_trapezoid default_generator deg2rad detach device diag diag_embed diagflat
diagonal diagonal_scatter diff digamma dist div divide dot double dsplit dstack dtype e einsum empty empty_like
empty_strided enable_grad eq equal erf erfc erfinv exp exp2 expm1 eye fill finfo fix flatten flip fliplr flipud float
float16 float32 float64 float_power floor floor_divide fmax fmin fmod frac frexp from_dlpack from_numpy frombuffer full
full_like gather gcd ge ger get_default_device get_default_dtype get_float32_matmul_precision get_num_threads
get_rng_state gradient greater greater_equal gt half hamming_window hann_window heaviside histc hsplit hstack hypot i0
iinfo imag index_add index_copy index_fill index_put index_reduce index_select inf inference_mode initial_seed inner int
int16 int32 int64 int8 is_complex is_conj is_floating_point is_grad_enabled is_inference_mode_enabled is_neg is_nonzero
is_same_size is_signed is_tensor isclose isfinite isin isinf isnan isneginf isposinf isreal kron kthvalue lcm ldexp le
lerp less less_equal lgamma linspace load log log10 log1p log2 log_softmax logaddexp logaddexp2 logcumsumexp logical_and
logical_not logical_or logical_xor logit logspace logsumexp long lt manual_seed masked_fill masked_scatter masked_select
matmul max maximum mean median meshgrid min minimum mm mode moveaxis movedim msort mul multinomial multiply mv mvlgamma
nan nan_to_num nanmean nanmedian nanquantile nansum narrow ne neg negative newaxis nextafter no_grad nonzero norm normal
not_equal numel ones ones_like outer permute pi poisson polar polygamma positive pow preserve_format prod promote_types
put quantile rad2deg rand rand_like randint randint_like randn randn_like randperm range ravel real reciprocal relu
remainder renorm repeat_interleave reshape resolve_conj resolve_neg result_type roll rot90 round row_stack rsqrt rsub
save scalar_tensor scatter scatter_add scatter_reduce searchsorted seed select select_scatter set_default_device
set_default_dtype set_default_tensor_type set_float32_matmul_precision set_grad_enabled set_num_threads set_printoptions
set_rng_state sgn short sigmoid sign signbit sin sinc sinh slice_scatter softmax sort split split_with_sizes sqrt square
squeeze stack std std_mean strided sub subtract sum swapaxes swapdims t take take_along_dim tan tanh tensor tensor_split
tensordot tile topk trace transpose trapezoid trapz tril tril_indices triu triu_indices true_divide trunc typename uint8
unbind unflatten unique unravel_index unsqueeze use_deterministic_algorithms vander var var_mean vdot view_as_complex
view_as_real vsplit vstack where xlogy zeros zeros_like bartlett_window
"""

#: forms of operations that write into their tensor, and what else stands in files of its own
_MORE: Final = """
abs_ acos_ acosh_ asin_ asinh_ atan_ atanh_ ceil_ clamp_ clamp_max_ clamp_min_ clip_ cos_ cosh_ deg2rad_ erf_ erfc_ exp_
exp2_ expm1_ fill_ floor_ frac_ log_ log10_ log1p_ log2_ logit_ nan_to_num_ neg_ negative_ rad2deg_ reciprocal_ relu_
round_ rsqrt_ sigmoid_ sin_ sinc_ sinh_ sqrt_ square_ tan_ tanh_ trunc_ xlogy_ zero_ fill_diagonal_ unique_consecutive
gcd_ i0_ lcm_ ldexp_
"""
_FUNCTIONAL: Final = """
adaptive_avg_pool1d adaptive_max_pool1d avg_pool1d bilinear celu celu_ channel_shuffle conv1d conv2d conv3d
conv_transpose1d conv_transpose2d conv_transpose3d dropout group_norm hardshrink layer_norm max_pool1d max_pool2d
max_pool3d pairwise_distance pdist pixel_shuffle pixel_unshuffle prelu rms_norm rrelu rrelu_ selu selu_ threshold
threshold_
"""

#: public name -> place, as lazy_names takes it
EAGER: Final = {
    "autograd": "",
    "backends": "",
    "cuda": "",
    "distributions": "",
    "fft": "",
    "func": "",
    "linalg": "",
    "nn": "",
    "optim": "",
    "random": "",
    "special": "",
    "utils": "",
    **{name: f"nn.recurrent:{name}" for name in ("gru_cell", "lstm_cell", "rnn_relu_cell", "rnn_tanh_cell")},
    "cholesky": "linalg:cholesky_of",
    "embedding": "nn.functional:embedding_of",
    "cholesky_inverse": "linalg:cholesky_inverse",
    "cholesky_solve": "linalg:cholesky_solve",
    "det": "linalg:det",
    "inverse": "linalg:inv",
    "is_anomaly_check_nan_enabled": "autograd.anomaly_mode:is_anomaly_check_nan_enabled",
    "is_anomaly_enabled": "autograd:is_anomaly_enabled",
    "logdet": "linalg:logdet",
    "lu": "linalg:lu_of",
    "lu_solve": "linalg:lu_solve_of",
    "lu_unpack": "linalg:lu_unpack",
    "matrix_exp": "linalg:matrix_exp",
    "matrix_power": "linalg:matrix_power",
    "pinverse": "linalg:pinv",
    "qr": "linalg:qr_of",
    "slogdet": "linalg:slogdet",
    "svd": "linalg:svd_in_columns",
    **{name: f"nn.functional:{name}" for name in _FUNCTIONAL.split()},
    **{name: f"runtime.eager:{name}" for name in (*_NAMES.split(), *_MORE.split())},
}

#: names of torch that there are not -> what to do instead
MISSING: Final = {
    "compile": "tg.function compiles NumPy functions; eager tensors run as they are",
    "jit": "tg.function compiles NumPy functions; eager tensors run as they are",
    "amp": "give dtypes by hand: x.to(torch.bfloat16)",
    "autocast": "give dtypes by hand: x.to(torch.bfloat16)",
    "sparse": "tensors are dense: to_dense() before they come here",
    "multiprocessing": "use Python's own module; arrays, x.numpy(), are what to send",
    "distributed": "a process has its own tensors; send arrays, x.numpy(), by a library of your choice",
    "mps": "the CPU is the only device",
    "xpu": "the CPU is the only device",
    "accelerator": "the CPU is the only device",
}
