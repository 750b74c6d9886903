"""The first example of README.md prints what README.md says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_first_example(tmp_path: Path) -> None:
    section = (ROOT / "README.md").read_text().partition("## A first example")[2]
    (code,) = re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)
    (expected,) = re.findall(r"```text\n(.*?)```", section, flags=re.DOTALL)
    script = tmp_path / "first.py"
    script.write_text(code)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip() == expected.rstrip()
