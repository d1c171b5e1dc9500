"""What tests of messages and their codes share."""

import contextlib
import re
import warnings

import kernbridge
import numpy as np
import pytest


@contextlib.contextmanager
def refused(code, kind=Exception):
    """The block raises an error of this code, whose first line ends with it."""
    with pytest.raises(kind) as caught:
        yield caught
    assert str(caught.value).splitlines()[0].endswith(f"[{code}]"), caught.value


@contextlib.contextmanager
def warned(code):
    """The block warns once with this code."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    found = [w for w in caught if issubclass(w.category, kernbridge.KernbridgeWarning)]
    assert [re.findall(r"\[(KB\d+)", str(w.message)) for w in found] == [[code]]


@contextlib.contextmanager
def silent():
    """The block does not warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", kernbridge.KernbridgeWarning)
        yield


def equal(found, expected):
    np.testing.assert_array_equal(np.asarray(found), np.asarray(expected, np.float32))
