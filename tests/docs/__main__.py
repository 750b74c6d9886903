"""Compares the outputs in docs/ with what the code prints now: `python -m tests.docs [--write] [pages]`."""

from __future__ import annotations

import argparse
import difflib
import os
import sys
import tempfile
from pathlib import Path

from tests.docs.ops_page import ops_page
from tests.docs.run import DOCS, render


def main() -> int:
    """Return 1 when a page differs and is not written."""
    parser = argparse.ArgumentParser(prog="python -m tests.docs", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the pages that differ")
    parser.add_argument("pages", nargs="*", help="names such as tutorial; all when left out")
    options = parser.parse_args()
    differ = 0
    for page in sorted(DOCS.glob("*.md")):
        if options.pages and page.stem not in options.pages:
            continue
        with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryDirectory() as directory:
            os.environ["TRACEGRAD_CACHE_DIR"] = cache
            text = ops_page() if page.stem == "ops" else render(page, Path(directory))
        if text != page.read_text():
            differ += 1
            print(f"{'wrote' if options.write else 'differs'}: {page.name}")
            if options.write:
                page.write_text(text)
            else:
                print(*difflib.unified_diff(page.read_text().splitlines(), text.splitlines(), lineterm=""), sep="\n")
    return int(differ > 0 and not options.write)


if __name__ == "__main__":
    sys.exit(main())
