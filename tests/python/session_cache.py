"""The cache folder of a test session: made before kernbridge is imported, removed at the end.

Tests must not find what another version of kernbridge compiled, nor leave anything in the cache of
the user. The workers of pytest-xdist and the programs that tests start inherit the folder through
the environment, and share what was compiled.
"""

import atexit
import os
import shutil
import tempfile

MARK = "KERNBRIDGE_TEST_SESSION"


def install():
    """Let this process, and those that it starts, keep compiled kernels in a folder of ours."""
    if MARK not in os.environ:
        folder = tempfile.mkdtemp(prefix="kernbridge-tests-")
        os.environ[MARK] = folder
        owner = os.getpid()
        atexit.register(lambda: os.getpid() == owner and shutil.rmtree(folder, ignore_errors=True))
    os.environ["KERNBRIDGE_CACHE_DIR"] = os.environ[MARK]
    os.environ.pop("KERNBRIDGE_CACHE_SIZE", None)
