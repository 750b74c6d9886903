"""A zoo of ordinary functions: the names of the modules that register them."""

FAMILIES = (
    "statistics",
    "dynamics",
    "solvers",
    "signals",
    "finance",
    "images",
    "matrices",
    "networks",
    "language",
    "arrays",
    "waves",
)
