"""The first example of README.md, in Python and in C, prints what README.md says."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tracegrad as tg

ROOT = Path(__file__).parents[2]


def section(title: str) -> str:
    return (ROOT / "README.md").read_text().partition(f"## {title}\n")[2].partition("\n## ")[0]


def run(command: list[str], directory: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.rstrip()


def write_first(directory: Path) -> str:
    """Write first.py; return what it prints."""
    text = section("A first example")
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    (expected,) = re.findall(r"```text\n(.*?)```", text, flags=re.DOTALL)
    (directory / "first.py").write_text(code)
    return str(expected).rstrip()


def test_first_example(tmp_path: Path) -> None:
    expected = write_first(tmp_path)
    assert run([sys.executable, "first.py"], tmp_path) == expected


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler called cc")
def test_c_without_python(tmp_path: Path) -> None:
    write_first(tmp_path)
    text = section("The C code by itself")
    dump, build = re.findall(r"```\n(.*?)\n(.*?)\n```", text)[0]
    (program,) = re.findall(r"```c\n(.*?)```", text, flags=re.DOTALL)
    (tmp_path / "main.c").write_text(program)
    run([sys.executable, "-m", *shlex.split(dump)], tmp_path)
    compiler, _, program = build.partition(" && ")
    run([*shlex.split(compiler), "-Wall", "-Wextra", "-Werror", "-Wno-format-nonliteral"], tmp_path)
    assert f"prints `{run([program], tmp_path)}`" in text


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler called cc")
def test_shell(tmp_path: Path) -> None:
    text = section("From the shell")
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    (tmp_path / "model.py").write_text(code)
    (commands,) = re.findall(r"```\n(python model.py.*?)```", text, flags=re.DOTALL)
    printed = []
    for line in commands.splitlines():
        program, *words = shlex.split(line.partition(" #")[0])
        start = [sys.executable] if program == "python" else [sys.executable, "-m", program]
        printed.append(run([*start, *words], tmp_path))
    assert printed[1].endswith("agreed") and "int loss_value_and_grad(" in printed[2]
    assert "def loss_value_and_grad(" in printed[3]


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_a_printed_source_ends_without_an_empty_line(backend: str) -> None:
    assert tg.grad(lambda x: x * x).source(2.0, backend=backend)[-1] not in "\n "
