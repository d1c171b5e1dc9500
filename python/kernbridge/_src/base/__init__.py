"""What every other package may use: errors, debug modes, versions, and small containers."""
