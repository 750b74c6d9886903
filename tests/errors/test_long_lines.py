"""Of a long source line a message shows a window around the piece that it is about."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracegrad.errors import Span

LONG = (
    "    return "
    + " + ".join(f"x[{k}] * {k}.0" for k in range(40))
    + " + np.sum(np.linalg.eigvals(x * np.eye(3)).real)"
)


def test_carets_stand_beneath_the_piece(tmp_path: Path) -> None:
    path = tmp_path / "long.py"
    start = LONG.index("np.linalg")
    path.write_text(f"def f(x):\n{LONG}\n")
    shown, carets = Span(str(path), 2, start + 1, start + 1 + len("np.linalg.eigvals")).show().splitlines()[1:]
    assert shown.startswith("2 | …") and len(shown) <= 120
    place = carets.index("^")
    assert shown[place : place + carets.count("^")] == "np.linalg.eigvals"


@pytest.mark.parametrize(("start", "end"), [(0, 5), (0, 600), (300, 310), (300, 600), (590, 600)])
def test_the_window_holds_the_start_of_the_piece(start: int, end: int, tmp_path: Path) -> None:
    text = "".join(chr(ord("a") + k % 26) for k in range(600))
    path = tmp_path / "letters.py"
    path.write_text(text + "\n")
    place, shown, carets = Span(str(path), 1, start + 1, end + 1).show().splitlines()
    assert place.endswith(f"letters.py:1:{start + 1}")
    assert max(len(shown), len(carets)) <= 120
    first = carets.index("^")
    assert shown[first] == text[start]
    assert len(carets) - first == min(end - start, len(shown) - first)
    assert shown.endswith("…") == (start < 530)


def test_lines_of_usual_length_are_shown_whole(tmp_path: Path) -> None:
    path = tmp_path / "usual.py"
    path.write_text("x" * 110 + "\n")
    assert Span(str(path), 1, 101, 111).show().splitlines()[1:] == ["1 | " + "x" * 110, "  | " + " " * 100 + "^" * 10]
