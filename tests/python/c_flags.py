"""The flags with which C programs find kernbridge."""

import contextlib
import io
import shlex

from kernbridge import cli


def c_flags() -> list[str]:
    """What `kernbridge c-flags` prints: a folder of headers, and the library."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert cli.main(["c-flags"]) == 0
    return shlex.split(printed.getvalue())
