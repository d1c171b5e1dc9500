"""The language of signatures: declared types of arrays, and what a call takes and returns."""
