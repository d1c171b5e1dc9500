"""The disk cache: artefacts, its limit, its trust, its locks."""
