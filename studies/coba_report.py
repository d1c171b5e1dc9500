"""The line of JSON that each program of the COBA network prints for studies/spiking.py."""

from __future__ import annotations

import json


def report(wall: float, cpu: float, steps: int, rate: float, joules: float | None = None) -> None:
    """Print what `steps` steps took in seconds, the rate of a neuron in Hz, and the energy."""
    result = {
        "wall_us": wall / steps * 1e6,
        "cpu_us": cpu / steps * 1e6,
        "rate": rate,
        "joules": joules,
        "steps": steps,
    }
    print(json.dumps(result))
