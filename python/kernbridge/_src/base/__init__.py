"""The base of all other packages: errors, modes, versions, the progress line, small containers."""
