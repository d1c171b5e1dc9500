"""The microcircuit's parameters, and what follows from them. Imports NumPy only.

The numbers are those of the tables 4 and 5 of Potjans and Diesmann (2014), The cell-type specific
cortical microcircuit: relating structure and activity in a full-scale spiking network model,
Cereb. Cortex 24:785-806, doi 10.1093/cercor/bhs358. The initial potentials and the reference rates
are those that the review of the model gives: Senk et al. (2026), doi 10.1088/2634-4386/ae379a.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

NAMES = ("L2/3E", "L2/3I", "L4E", "L4I", "L5E", "L5I", "L6E", "L6I")
FULL_SIZES = np.array([20683, 5834, 21915, 5479, 4850, 1065, 14395, 2948])

# The probability that two neurons are connected, a row for each target population.
PROBABILITIES = np.array(
    [
        [0.1009, 0.1689, 0.0437, 0.0818, 0.0323, 0.0000, 0.0076, 0.0000],
        [0.1346, 0.1371, 0.0316, 0.0515, 0.0755, 0.0000, 0.0042, 0.0000],
        [0.0077, 0.0059, 0.0497, 0.1350, 0.0067, 0.0003, 0.0453, 0.0000],
        [0.0691, 0.0029, 0.0794, 0.1597, 0.0033, 0.0000, 0.1057, 0.0000],
        [0.1004, 0.0622, 0.0505, 0.0057, 0.0831, 0.3726, 0.0204, 0.0000],
        [0.0548, 0.0269, 0.0257, 0.0022, 0.0600, 0.3158, 0.0086, 0.0000],
        [0.0156, 0.0066, 0.0211, 0.0166, 0.0572, 0.0197, 0.0396, 0.2252],
        [0.0364, 0.0010, 0.0034, 0.0005, 0.0277, 0.0080, 0.0658, 0.1443],
    ]
)
EXTERNAL_IN_DEGREES = np.array([1600, 1500, 2100, 1900, 2000, 1900, 2900, 2100])
BACKGROUND_RATE = 8.0  # Hz, of each external input

# Hz. With the Poisson drive, at full scale; the compensation of lost inputs uses them, too.
REFERENCE_RATES = np.array([0.903, 2.965, 4.414, 5.876, 7.569, 8.633, 1.105, 7.829])

# Hz, of a tenth of the neurons with all their inputs, by NEST: studies/microcircuit_nest.py.
TENTH_RATES = np.array([1.770, 4.529, 4.176, 6.440, 10.044, 9.829, 1.080, 8.683])

# mV, mean and standard deviation of initial potentials for which the initial transient is short.
START_MEAN = np.array([-68.28, -63.16, -63.33, -63.45, -63.11, -61.66, -66.72, -61.43])
START_DEVIATION = np.array([5.36, 4.57, 4.74, 4.94, 4.94, 4.55, 5.46, 4.48])

DT = 0.1  # ms
C_M = 250.0  # pF
TAU_M = 10.0  # ms
TAU_SYN = 0.5  # ms
T_REFRACTORY = 2.0  # ms
E_LEAK = -65.0  # mV, where a spike resets the potential, too
THRESHOLD = -50.0  # mV
PSP = 0.15  # mV, the peak of an excitatory postsynaptic potential
RELATIVE_INHIBITION = -4.0  # the weight of an inhibitory synapse
WEIGHT_DEVIATION = 0.1  # of the mean
DELAY_MEANS = (1.5, 0.75)  # ms, from excitatory and from inhibitory neurons
DELAY_DEVIATION = 0.5  # of the mean
SLOTS = 64  # of a delay ring, a step each: delays are 1 to 63 steps


def psc_of_psp() -> float:
    """Compute the current of a synapse, pA, of which 1 mV is the peak of the potential."""
    ratio, difference = TAU_M / TAU_SYN, TAU_M - TAU_SYN
    peak = ratio ** (-TAU_M / difference) - ratio ** (-TAU_SYN / difference)
    return -C_M * difference / (TAU_M * TAU_SYN * peak)


@dataclass(frozen=True)
class Model:
    """The model at a scale.

    Parameters
    ----------
    scale
        The part of the neurons that is kept. Each keeps its number of inputs.
    in_degrees
        The part of the inputs of a neuron that is kept. Weights grow by the square root of what is
        lost, and a direct current makes up for the rest of the mean, as section "Parameterization"
        of van Albada, Helias and Diesmann (2015, doi 10.1371/journal.pcbi.1004490) has it.
    drive
        "poisson", or "dc" for a current of the same mean.
    """

    scale: float = 1.0
    in_degrees: float = 1.0
    drive: str = "poisson"

    @cached_property
    def sizes(self) -> np.ndarray:
        return np.maximum(1, np.round(FULL_SIZES * self.scale)).astype(np.int64)

    @cached_property
    def starts(self) -> np.ndarray:
        """The first neuron of each population, and the number of neurons behind the last one."""
        return np.concatenate([[0], np.cumsum(self.sizes)])

    @property
    def neurons(self) -> int:
        return int(self.starts[-1])

    @cached_property
    def full_in_degrees(self) -> np.ndarray:
        """Inputs of a neuron of each target population (row) at full scale.

        Multapses are allowed, so that the number of synapses K between two populations follows
        from the probability that a pair has at least one: p = 1 - (1 - 1 / (N_t N_s))**K.
        """
        pairs = np.outer(FULL_SIZES, FULL_SIZES).astype(float)
        return np.round(np.log1p(-PROBABILITIES) / np.log1p(-1 / pairs)) / FULL_SIZES[:, None]

    @cached_property
    def synapses(self) -> np.ndarray:
        """The number of synapses onto each population (row) from each (column)."""
        total = self.full_in_degrees * self.in_degrees * self.sizes[:, None]
        return np.round(total).astype(np.int64)

    @cached_property
    def weights(self) -> np.ndarray:
        """The mean weight onto each population from each, pA."""
        mean = np.where(np.arange(8) % 2 == 0, 1, RELATIVE_INHIBITION) * np.ones((8, 1))
        mean[0, 2] = 2  # from L4E to L2/3E
        return mean * self.external_weight

    @property
    def external_weight(self) -> float:
        """The weight of an external input, pA."""
        return PSP * psc_of_psp() / float(np.sqrt(self.in_degrees))

    @property
    def external_in_degrees(self) -> np.ndarray:
        return EXTERNAL_IN_DEGREES * self.in_degrees

    @cached_property
    def external_rates(self) -> np.ndarray:
        """Spikes that come from outside to a neuron of each population, per ms."""
        return self.external_in_degrees * BACKGROUND_RATE / 1000

    @cached_property
    def currents(self) -> np.ndarray:
        """The direct current into a neuron of each population, pA."""
        lost = 1 - np.sqrt(self.in_degrees)
        full = self.full_in_degrees * self.weights * np.sqrt(self.in_degrees)
        external = EXTERNAL_IN_DEGREES * PSP * psc_of_psp() * BACKGROUND_RATE
        result = lost * TAU_SYN / 1000 * (full @ REFERENCE_RATES + external)
        if self.drive == "dc":
            result = result + self.external_rates * self.external_weight * TAU_SYN
        return result

    def population_of(self, neurons: np.ndarray) -> np.ndarray:
        return np.searchsorted(self.starts, neurons, side="right") - 1


def reference_rates(model: Model) -> np.ndarray | None:
    """The rates to expect of each population, Hz; None where they are not known."""
    if model.drive != "poisson" or model.in_degrees != 1:
        return None
    return {1.0: REFERENCE_RATES, 0.1: TENTH_RATES}.get(model.scale)
