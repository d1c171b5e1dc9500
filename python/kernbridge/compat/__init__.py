"""Other packages that run on kernbridge."""
