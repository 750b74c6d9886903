"""`from tests.eager.torch_like import torch`: tracegrad under the name that users give it."""

from __future__ import annotations

import tracegrad as torch

__all__ = ["torch"]
