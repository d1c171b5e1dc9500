"""The implementation of kernbridge. Each package imports only the packages below it."""
