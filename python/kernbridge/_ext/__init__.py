"""Extensions, which the core does not import: each can be deleted with its tests."""
