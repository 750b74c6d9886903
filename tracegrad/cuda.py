"""torch.cuda's names that say that there is no such device, so that code which asks for one runs on the CPU."""

from __future__ import annotations


def is_available() -> bool:
    """Return False: tensors are on the CPU."""
    return False


def device_count() -> int:
    """Return 0: tensors are on the CPU."""
    return 0


def is_initialized() -> bool:
    """Return False: there is nothing to initialize."""
    return False


def manual_seed(seed: int) -> None:
    """Do nothing: there are no generators of devices."""


manual_seed_all = manual_seed


def empty_cache() -> None:
    """Do nothing: there is no cache of device memory."""


def synchronize(device: object = None) -> None:
    """Do nothing: operations are done when they return."""
