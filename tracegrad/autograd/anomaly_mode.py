"""Finding the operation whose gradient is NaN: a mode in which nodes remember where they were made.

Writes the tape's modes. Previous: forward_ad.py; next: __init__.py.
"""

from __future__ import annotations

import warnings

from tracegrad.runtime.tape import mode


class set_detect_anomaly:
    """Switch anomaly detection on or off: at once, and back when used as a context manager."""

    def __init__(self, mode_: bool = True, check_nan: bool = True) -> None:
        self.before = (mode.anomaly, mode.check_nan)
        mode.anomaly, mode.check_nan = mode_, check_nan

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        mode.anomaly, mode.check_nan = self.before


class detect_anomaly:
    """Inside the with statement, a NaN in backward is an error that shows where the operation was called."""

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for "
            "debugging.",
            UserWarning,
            stacklevel=2,
        )

    def __enter__(self) -> None:
        self.before = (mode.anomaly, mode.check_nan)
        mode.anomaly, mode.check_nan = True, self.check_nan

    def __exit__(self, *error: object) -> None:
        mode.anomaly, mode.check_nan = self.before


def is_anomaly_enabled() -> bool:
    """Return whether anomaly detection is on."""
    return bool(mode.anomaly)


def is_anomaly_check_nan_enabled() -> bool:
    """Return whether anomaly detection looks for NaN."""
    return mode.check_nan
