"""Why a cache entry is what it is: the parts of its key, and how it differs from its nearest neighbour.

Reads entries of cache.py; gives text to `tracegrad cache why`. Previous: cache.py; next: code_store.py.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterator, Mapping

from tracegrad.driver.cache import INPUT, Cache, Entry


def why(cache: Cache, name_or_digest: str) -> str:
    """Return a text on what the entries of a function (or one entry, by the start of its digest) were made from.

    It says for each what differs from the most similar other entry of that function.
    """
    every = cache.entries()
    chosen = [e for e in every if e.name == name_or_digest or e.digest.startswith(name_or_digest)]
    if not chosen:
        return f"no entry for {name_or_digest} in {cache.directory}"
    return "\n\n".join(_explain(entry, [e for e in every if e.name == entry.name and e != entry]) for entry in chosen)


def _explain(entry: Entry, others: list[Entry]) -> str:
    parts: Mapping[str, str] = entry.manifest["parts"]
    lines = [f"{entry.name} {entry.digest}", *(f"  {name}: {value}" for name, value in sorted(parts.items()))]
    text = _input(entry)
    lines.append(f"  text: {len(text.splitlines())} lines, sha256 {hashlib.sha256(text.encode()).hexdigest()[:16]}")
    if not others:
        return "\n".join([*lines, "  no other entry of this function"])
    nearest = min(others, key=lambda other: _distance(entry, other))
    lines.append(f"  differs from the nearest other entry {nearest.digest[:16]} in:")
    lines.extend(f"    {line}" for line in _differences(entry, nearest))
    return "\n".join(lines)


def _input(entry: Entry) -> str:
    try:
        return entry.file(INPUT).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _distance(a: Entry, b: Entry) -> tuple[int, float]:
    parts_a, parts_b = a.manifest["parts"], b.manifest["parts"]
    differing = sum(parts_a.get(k) != parts_b.get(k) for k in {*parts_a, *parts_b})
    matcher = difflib.SequenceMatcher(None, _input(a).splitlines(), _input(b).splitlines(), autojunk=False)
    return differing, 1.0 - matcher.quick_ratio()


def _differences(a: Entry, b: Entry) -> Iterator[str]:
    parts_a, parts_b = a.manifest["parts"], b.manifest["parts"]
    for name in sorted({*parts_a, *parts_b}):
        if parts_a.get(name) != parts_b.get(name):
            yield f"{name}: {parts_a.get(name, '(absent)')}  (there: {parts_b.get(name, '(absent)')})"
    lines_a, lines_b = _input(a).splitlines(), _input(b).splitlines()
    yield from difflib.unified_diff(lines_b, lines_a, "there", "here", lineterm="", n=0)
