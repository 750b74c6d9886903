"""Automatic differentiation that turns plain NumPy Python into gradient source code, in NumPy or C.

Public names are imported when they are first used, so that `import tracegrad` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracegrad.lazy import lazy_names
from tracegrad.torch_names import EAGER, MISSING

if TYPE_CHECKING:
    from tracegrad import errors, testing
    from tracegrad.api import (
        function,
        grad,
        hessian,
        hessian_diagonal,
        hvp,
        is_tracer,
        jacfwd,
        jacobian,
        jacrev,
        jvp,
        linearize,
        stop_gradient,
        value_and_grad,
        vhp,
        vjp,
        vmap,
    )
    from tracegrad.callbacks import pure_callback
    from tracegrad.config import VERSION as __version__
    from tracegrad.custom import checkpoint, custom_jvp, custom_vjp
    from tracegrad.debug import debug_nans
    from tracegrad.explanation import explain

#: public name -> module that defines it; see lazy_names
_LAZY = {
    **EAGER,
    "__version__": "config:VERSION",
    "checkpoint": "custom",
    "custom_jvp": "custom",
    "custom_vjp": "custom",
    "debug_nans": "debug",
    "errors": "",
    "explain": "explanation",
    "function": "api",
    "grad": "api",
    "hessian": "api",
    "hessian_diagonal": "api",
    "hvp": "api",
    "is_tracer": "api",
    "jacfwd": "api",
    "jacobian": "api",
    "jacrev": "api",
    "jvp": "api",
    "linearize": "api",
    "pure_callback": "callbacks",
    "stop_gradient": "api",
    "testing": "",
    "value_and_grad": "api",
    "vhp": "api",
    "vjp": "api",
    "vmap": "api",
}

__all__ = [
    "__version__",
    "checkpoint",
    "custom_jvp",
    "custom_vjp",
    "debug_nans",
    "errors",
    "explain",
    "function",
    "grad",
    "hessian",
    "hessian_diagonal",
    "hvp",
    "is_tracer",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jvp",
    "linearize",
    "pure_callback",
    "stop_gradient",
    "testing",
    "value_and_grad",
    "vhp",
    "vjp",
    "vmap",
]


__getattr__ = lazy_names(__name__, _LAZY, globals(), "docs/eager.md says what there is of torch's names", MISSING)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
