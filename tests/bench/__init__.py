"""Timings of tracegrad beside hand-written code, in one run: `make bench`."""
