"""Runs the code in the pages of docs/ and gives each page with the outputs that the code has now.

A fenced block says after its language what it is:

    python                runs, after the blocks before it on the page; as file example.py of its own
    python file=model.py  is written to a file that later blocks import
    python fails=TG118    must raise the tracegrad error with this code; its output is the message
    sh                    runs in a shell, in the directory of the files
    ... output            (any language) is what the block before it printed

Blocks without these words, in other languages, are left alone.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracegrad.errors import TracegradError

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@dataclass
class Block:
    """A fenced block: the words after the fence, its lines, and where it is in the page."""

    words: list[str]
    text: str
    start: int
    end: int

    @property
    def language(self) -> str:
        return self.words[0] if self.words else ""

    def option(self, name: str) -> str | None:
        """Return the value of `name=value` among the words."""
        return next((w.partition("=")[2] for w in self.words[1:] if w.startswith(f"{name}=")), None)


def blocks(lines: list[str]) -> Iterator[Block]:
    """Yield the fenced blocks of a page; `start` and `end` are the lines of the text between the fences."""
    start = None
    words: list[str] = []
    for number, line in enumerate(lines):
        if not line.startswith("```"):
            continue
        if start is None:
            start, words = number + 1, line[3:].split()
        else:
            yield Block(words, "\n".join(lines[start:number]) + "\n", start, number)
            start = None
    assert start is None, f"a block that begins in line {start} has no end"


def render(page: Path, directory: Path) -> str:
    """Return the text of a page with the outputs that its code has now.

    Args:
        directory: an empty directory for the files of the page.
    """
    lines = page.read_text().splitlines()
    scope: dict[str, Any] = {"__name__": "__main__"}
    output = ""
    replaced: list[tuple[int, int, list[str]]] = []
    with contextlib.chdir(directory), _importable(directory):
        for number, block in enumerate(blocks(lines)):
            if "output" in block.words:
                replaced.append((block.start, block.end, output.rstrip("\n").splitlines()))
            elif block.language == "python" and block.option("file"):
                Path(str(block.option("file"))).write_text(block.text)
            elif block.language == "python":
                output = _run_python(block, directory / f"block{number}", scope, f"{page.name}:{block.start}")
            elif block.language == "sh":
                output = _run_shell(block)
    for start, end, text in reversed(replaced):
        lines[start:end] = text
    return "\n".join(lines) + "\n"


def _run_python(block: Block, place: Path, scope: dict[str, Any], where: str) -> str:
    place.mkdir()
    file = place / "example.py"
    file.write_text(block.text)
    code = compile(block.text, str(file), "exec")
    printed = io.StringIO()
    wanted = block.option("fails")
    with contextlib.redirect_stdout(printed):
        try:
            exec(code, scope)
        except TracegradError as error:
            assert wanted == error.code, f"{where}: {error}"
            return f"{type(error).__name__}: {error}".replace(f"{place}/", "")
    assert wanted is None, f"{where}: {wanted} was expected"
    return printed.getvalue().replace(f"{place}/", "")


def _run_shell(block: Block) -> str:
    text = re.sub(r"^tracegrad ", f"{sys.executable} -m tracegrad ", block.text, flags=re.MULTILINE)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), "."]), "COLUMNS": "100"}
    done = subprocess.run(
        ["sh", "-c", text], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return done.stdout.replace(f"{os.getcwd()}/", "")


@contextlib.contextmanager
def _importable(directory: Path) -> Iterator[None]:
    before = set(sys.modules)
    sys.path.insert(0, str(directory))
    try:
        yield
    finally:
        sys.path.remove(str(directory))
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None) or ""
            if file.startswith(str(directory)):
                del sys.modules[name]
        linecache.clearcache()
