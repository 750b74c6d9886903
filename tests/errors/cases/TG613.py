import tempfile
from pathlib import Path

from tracegrad.driver.toolchain import _probe

SCRIPT = """#!/bin/sh
case "$*" in *--version*) echo "cc 1.0"; exit 0;; esac
echo "cc: licence expired" >&2
exit 1
"""


def run():
    with tempfile.TemporaryDirectory(prefix="tracegrad-case-") as directory:
        command = Path(directory) / "cc"
        command.write_text(SCRIPT)
        command.chmod(0o755)
        _probe((str(command),))
