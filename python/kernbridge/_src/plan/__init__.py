"""Programs and launches on GPUs: grids, blocks, buffers, cubins."""
