"""torch.autograd.grad_mode's names.

Previous: anomaly_mode.py; next: __init__.py.
"""

from __future__ import annotations

from tracegrad.runtime.gradients import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = ["enable_grad", "inference_mode", "no_grad", "set_grad_enabled"]
