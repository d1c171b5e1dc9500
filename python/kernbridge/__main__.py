"""`python -m kernbridge`."""

import sys

from kernbridge.cli import main

if __name__ == "__main__":
    sys.exit(main())
