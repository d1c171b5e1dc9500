"""The base of all other packages: errors, debug modes, versions, the progress line and small containers."""
