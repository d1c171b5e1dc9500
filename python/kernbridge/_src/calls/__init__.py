"""What one call of an operation is: its arrays, batch axes, and names of dimensions."""
