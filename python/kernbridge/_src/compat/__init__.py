"""Support for other packages that run on kernbridge."""
