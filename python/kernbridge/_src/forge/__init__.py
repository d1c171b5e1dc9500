"""Makes each artefact once: memory, the disk cache, locks and Ctrl-C."""
