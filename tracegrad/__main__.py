"""`python -m tracegrad`. Previous: cli.py."""

from tracegrad.cli import main

if __name__ == "__main__":
    main(prog_name="tracegrad")
