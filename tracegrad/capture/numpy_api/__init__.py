"""What functions of NumPy, SciPy, math and builtins do with traced values, by family. Importing it fills `HANDLERS`."""
