"""Compares all golden files with what the compiler makes now, or writes them: `python -m tests.golden [--write]`."""

from __future__ import annotations

import argparse
import sys

from tests.errors.build import CASES as ERROR_CASES
from tests.errors.build import case_names as error_names
from tests.errors.build import provoke
from tests.golden.build import CASES, build, case_names


def main() -> int:
    """Return 1 when a golden file differs and is not written."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the files that differ")
    parser.add_argument("names", nargs="*", help="cases; all when left out")
    options = parser.parse_args()
    texts = {CASES / f"{n}{s}": t for n in _chosen(case_names(), options.names) for s, t in build(n).items()}
    texts |= {ERROR_CASES / f"{n}.err": provoke(n) for n in _chosen(error_names(), options.names)}
    differ = 0
    for path, text in texts.items():
        if not path.exists() or path.read_text() != text:
            differ += 1
            print(f"{'wrote' if options.write else 'differs'}: {path.parent.parent.name}/{path.name}")
            if options.write:
                path.write_text(text)
    print(f"{len(texts)} golden files, {differ} {'written' if options.write else 'differ'}")
    return int(differ > 0 and not options.write)


def _chosen(names: list[str], wanted: list[str]) -> list[str]:
    return [n for n in names if not wanted or n in wanted]


if __name__ == "__main__":
    sys.exit(main())
