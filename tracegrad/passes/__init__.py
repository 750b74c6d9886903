"""Rewrites of IR that keep its meaning, and the plan of which writes happen in place."""
