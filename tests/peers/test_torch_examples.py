"""The tutorial scripts print under torch what golden/examples holds.

To write the files anew: `python -m tests.peers.test_torch_examples`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.eager.test_examples import EXAMPLES, GOLDEN, output

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch (CPU)")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_example(path: Path) -> None:
    assert output(path, "torch") == (GOLDEN / f"{path.stem}.txt").read_text()


if __name__ == "__main__":
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for each in EXAMPLES:
        (GOLDEN / f"{each.stem}.txt").write_text(output(each, "torch"))
