"""Commands and checks for users: rules, diagnostics, benchmarks."""
