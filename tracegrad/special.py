"""torch.special's names: functions of mathematics.

Reads tensors.
"""

from __future__ import annotations

from tracegrad.lazy import lazy_names
from tracegrad.runtime import eager as _eager  # noqa: F401 attaches the methods of tensors
from tracegrad.runtime.reducing import log_softmax, logsumexp, softmax
from tracegrad.runtime.special import entr, i0, i0e, i1, i1e, log_ndtr, ndtr, ndtri, polygamma, xlog1py
from tracegrad.runtime.special import mvlgamma as multigammaln
from tracegrad.runtime.tensor import NAMES
from tracegrad.runtime.traced import call_with_traced_values

digamma = psi = NAMES["digamma"]
erf, erfc, erfinv = NAMES["erf"], NAMES["erfc"], NAMES["erfinv"]
exp2, expm1, log1p, round = NAMES["exp2"], NAMES["expm1"], NAMES["log1p"], NAMES["round"]
expit, gammaln, logit, sinc = NAMES["sigmoid"], NAMES["lgamma"], NAMES["logit"], NAMES["sinc"]
xlogy = NAMES["xlogy"]

__all__ = [
    "digamma", "entr", "erf", "erfc", "erfinv", "exp2", "expit", "expm1", "gammaln", "i0", "i0e", "i1", "i1e",
    "log1p", "log_ndtr", "log_softmax", "logit", "logsumexp", "multigammaln", "ndtr", "ndtri", "polygamma", "psi",
    "round", "sinc", "softmax", "xlog1py", "xlogy",
]  # fmt: skip

call_with_traced_values((entr, i0e, i1, i1e, log_ndtr, ndtr, ndtri, xlog1py))
__getattr__ = lazy_names(__name__, {}, globals(), "docs/eager.md says what there is of torch's names")
