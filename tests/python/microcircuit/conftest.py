"""The tests of examples/microcircuit.py import it and its folder pd14."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[3] / "examples"))
