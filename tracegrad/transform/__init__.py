"""IR to IR, with another meaning: derivatives. See vjp.py."""
