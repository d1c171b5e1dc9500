"""A plan at work: where its arrays lie, its steps in jitted calls, and the spikes that come out."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from . import graph, network, neuron, persistent, reference, state
from . import parameters as p

PLANS = ("graph", "persistent", "cpu")
WIDE = 768  # neurons of a part whose ring fits into the shared memory of an SM, 192 KiB
MOST_HZ = 60  # the mean rate that the log has room for
LOG_ROOM = 100_000  # more spikes that it has room for


@dataclass(frozen=True)
class Launch:
    """How a plan is launched. None stands for what suits the device."""

    parts: int | None = None  # blocks
    threads: int | None = None  # of a block
    group: int = 16  # threads that deliver a spike to a part


class Spikes(NamedTuple):
    steps: np.ndarray  # int64, ascending
    neurons: np.ndarray  # int32, ascending in each step


class Fault(Exception):
    """The run cannot go on, or its spikes are not complete."""


def default_parts(model: p.Model, device: jax.Device, devices: int, plan: str) -> int:
    """Choose the parts: one for each SM of GPUs, or four on CPUs, but none whose ring is too large.

    The plan "graph" on one GPU has two for each SM: one waits for memory while the other computes.
    """
    wanted = 4
    if device.platform == "gpu":
        wanted = device.core_count * (2 if plan == "graph" and devices == 1 else devices)
    wanted = max(min(wanted, model.neurons // 32), -(-model.neurons // WIDE), 1)
    return -(-wanted // devices) * devices


class Simulation:
    """The network on devices.

    Parameters
    ----------
    model, net, seed
        What is simulated; `seed` is that of the drive and of the initial potentials.
    plan
        "graph", "persistent" or "cpu".
    devices
        Where. Only the plan "graph" runs on several.
    chunk
        The steps of one call.
    records_spikes
        False counts the spikes of each neuron only.
    """

    def __init__(
        self,
        model: p.Model,
        net: network.Network,
        seed: int,
        plan: str,
        devices: Sequence[jax.Device],
        *,
        chunk: int = 1000,
        records_spikes: bool = True,
        launch: Launch = Launch(),
    ) -> None:
        if plan != "graph" and len(devices) > 1:
            raise Fault(f"the plan {plan!r} runs on one device, not on {len(devices)}")
        self.model, self.chunk = model, chunk
        on_gpu = devices[0].platform == "gpu"
        whole_warps = -(-max(net.width, 32) // 32) * 32
        on_sm = 640 if plan == "graph" else 768
        threads = launch.threads or (max(on_sm, whole_warps) if on_gpu else whole_warps)
        if threads < net.width or threads % launch.group:
            raise Fault(
                f"{threads} threads a block: expected a multiple of {launch.group}, of at least"
                f" the {net.width} neurons of a part"
            )
        c = neuron.constants(
            model,
            net,
            net.parts // len(devices),
            threads=threads,
            group=launch.group,
            records_spikes=records_spikes,
        )
        run: Callable[..., Any]
        if plan == "graph":
            run, mail = graph.make_run(c, len(devices)), graph.start_mail(net.parts)
        elif plan == "persistent":
            run, mail = persistent.make_run(c, on_gpu), persistent.start_mail(net.parts)
        else:
            run, mail = reference.make_run(c), reference.start_mail(c.neurons)
        room = round(c.neurons / len(devices) * chunk * p.DT / 1000 * MOST_HZ) + LOG_ROOM
        mesh = Mesh(np.array(devices), ("device",))
        split, whole = NamedSharding(mesh, P("device")), NamedSharding(mesh, P())
        given = state.given(model, net, seed)
        fields = state.Given(*[whole] * len(given))
        fields = fields._replace(part=split, population=split, records=split, synapses=split)
        self._given = jax.device_put(given, fields)
        start = state.start(model, net, seed, len(devices), room)
        self._state = jax.device_put(start, split)
        self._mail = jax.device_put(mail, whole)
        self._clock, self._room = 0, room

        def steps(given, values, mail, count):
            if len(devices) == 1:
                return run(given, values, mail, count)
            of_given = jax.tree.map(lambda s: s.spec, fields)
            return jax.shard_map(
                lambda *a: run(*a, count),
                mesh=mesh,
                in_specs=(of_given, P("device"), P()),
                out_specs=(P("device"), P()),
                check_vma=False,
            )(given, values, mail)

        self._jitted = jax.jit(steps, static_argnums=3, donate_argnums=(1, 2))
        self._compiled: dict[int, Any] = {}

    def compile(self, steps: int) -> None:
        """Compile the calls that `advance` makes for so many steps."""
        for count in {min(steps, self.chunk), steps % self.chunk} - {0, *self._compiled}:
            arguments = (self._given, self._state, self._mail, count)
            self._compiled[count] = self._jitted.lower(*arguments).compile()

    def advance(
        self, steps: int, told: Callable[[int], object] = lambda steps: None
    ) -> tuple[Spikes, float]:
        """Run; returns the spikes, and the seconds that the calls took."""
        self.compile(steps)
        seconds, found = 0.0, []
        for first in range(0, steps, self.chunk):
            count = min(self.chunk, steps - first)
            begin = time.perf_counter()
            called = self._compiled[count](self._given, self._state, self._mail)
            self._state, self._mail = jax.block_until_ready(called)
            seconds += time.perf_counter() - begin
            found.append(self._take_log(count))
            told(count)
        who, when = (np.concatenate(x) for x in zip(*found, strict=True))
        return Spikes(when, who), seconds

    def _take_log(self, steps: int) -> tuple[np.ndarray, np.ndarray]:
        logged, crowded = np.asarray(self._state.logged), int(np.max(self._state.crowded))
        if crowded:
            raise Fault(f"{crowded} spikes in one step: expected at most {neuron.LISTED}")
        if logged.max() > self._room:
            raise Fault(f"{logged.max()} spikes in a call: expected at most {self._room}")
        first, self._clock = self._clock, self._clock + steps
        if not logged.any():
            return np.zeros(0, np.int32), np.zeros(0, np.int64)
        logs = np.asarray(self._state.log).reshape(logged.size, -1)
        entries = np.concatenate([log[:n] for log, n in zip(logs, logged, strict=True)])
        sharding = self._state.logged.sharding
        self._state = self._state._replace(logged=jax.device_put(logged * 0, sharding))
        when = (entries >> neuron.LOG_BITS).astype(np.int64)
        when = first + ((when - first) & neuron.CLOCKED)
        who = (entries & ((1 << neuron.LOG_BITS) - 1)).astype(np.int32)
        order = np.lexsort((who, when))
        return who[order], when[order]

    def values(self) -> dict[str, np.ndarray]:
        """The state of the neurons: v, current, wait, total by neuron, and what is on its way."""
        found = {
            name: state.by_neuron(getattr(self._state, name), self.model.neurons)
            for name in ("v", "current", "wait", "total")
        }
        parts = self._state.ring.shape[0]
        ring = np.asarray(self._state.ring).reshape(parts, p.SLOTS, -1)
        slots = [state.by_neuron(ring[:, k], self.model.neurons) for k in range(p.SLOTS)]
        return found | {"ring": np.stack(slots)}
