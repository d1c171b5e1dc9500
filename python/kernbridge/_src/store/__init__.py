"""The disk cache: its entries, size limit, permissions and locks."""
