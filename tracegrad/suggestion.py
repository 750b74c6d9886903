"""The name that was meant: what error messages suggest for a name that does not exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def suggest(name: str, known: Iterable[str]) -> str:
    """Return "did you mean X?" for the nearest of the known names, or "" when none is near.

    >>> suggest("graad", ["grad", "hessian"])
    'did you mean grad?'
    >>> suggest("foo", ["floor"])
    ''
    """
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.7 if len(name) > 4 else 0.8)
    return f"did you mean {near[0]}?" if near else ""
