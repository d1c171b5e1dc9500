"""The base of all other packages: errors, debug modes, versions, and small containers."""
