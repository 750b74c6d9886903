"""IR to source text: NumPy for people, C for speed."""
