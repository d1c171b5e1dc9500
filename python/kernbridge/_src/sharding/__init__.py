"""Calls on several devices: the rules of users, and the answers to XLA's partitioner."""
