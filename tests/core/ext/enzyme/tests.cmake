# Tests of what derivatives by Enzyme call.
kb_add_test(test_thrown kb_testing)
