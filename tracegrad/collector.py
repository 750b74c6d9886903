"""The garbage collector of Python, which rests while much is made that stays.

Imports nothing of the package. Used by lazy.py and driver/pipeline.py.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_rests() -> Iterator[None]:
    """Collect no garbage inside a with statement, or in a function that has this as its decorator.

    Operations and values refer to each other, and a capture keeps them all: the collector would go through them again
    and again, for up to a third of the time, and find nothing.
    """
    rests = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if rests:
            gc.enable()
