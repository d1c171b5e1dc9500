"""Bundles: programs in a folder, for hosts without Python."""
