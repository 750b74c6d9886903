"""The garbage collector of Python, which rests while much is made that stays.

Imports nothing of the package. Used by lazy.py and driver/pipeline.py.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def without_collector(function: F) -> F:
    """Return a function that runs without garbage being collected.

    Operations and values refer to each other, and a capture keeps them all: the collector would go through them again
    and again, for up to a third of the time, and find nothing.
    """

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        rests = gc.isenabled()
        gc.disable()
        try:
            return function(*args, **kwargs)
        finally:
            if rests:
                gc.enable()

    return run  # type: ignore[return-value]
