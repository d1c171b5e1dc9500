"""Commands and checks for users: rules, diagnostics and benchmarks."""
