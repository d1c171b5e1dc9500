"""Records launchers in CUDA C++ as plans, in a process of their own."""
