"""Makes each artefact once: memory, the disk cache, locks, Ctrl-C and the progress line."""
