"""torch.cuda's names that say that there is no such device, so that code which asks for one runs on the CPU."""

from __future__ import annotations


def is_available() -> bool:
    """Return False: tensors are on the CPU."""
    return False


def device_count() -> int:
    """Return 0: tensors are on the CPU."""
    return 0
