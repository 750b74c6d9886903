"""What happens when a compiled function is called, and eager tensors."""
