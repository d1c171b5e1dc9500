"""Bundles: folders with programs for hosts without Python."""
