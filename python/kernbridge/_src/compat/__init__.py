"""What other packages need to run on kernbridge."""
