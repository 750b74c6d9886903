"""torch.backends' names: settings that programs write, and devices that are not there."""

from __future__ import annotations

from typing import Final


class _Backend:
    """A library of torch: what is set is kept and changes nothing."""

    enabled, benchmark, deterministic, allow_tf32 = False, False, False, False

    def is_available(self) -> bool:
        """Return False: tensors are on the CPU, in NumPy."""
        return False

    is_built = is_available


cuda: Final = _Backend()
cudnn: Final = _Backend()
mkl: Final = _Backend()
mps: Final = _Backend()
