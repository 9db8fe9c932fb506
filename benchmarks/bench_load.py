"""Loading 100,000 rules with every strict check and the index, against pycasbin's bare load of the same rules."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from benchmarks.measure import Row
from benchmarks.processes import ask

ROUNDS = 5


def rows(seconds: float) -> Iterator[Row]:
    """`seconds` is ignored: a load takes as long as it takes, and each needs a fresh process."""
    taken: dict[str, list[dict[str, float]]] = {"remit": [], "pycasbin": []}
    for number in range(ROUNDS):
        for engine in sorted(taken, reverse=number % 2 == 0):
            taken[engine].append(ask("load_child", engine, "100k"))
    ours, theirs = taken["remit"], taken["pycasbin"]
    load = statistics.median(o["seconds"] / t["seconds"] for o, t in zip(ours, theirs, strict=True))
    memory = statistics.median(o["mib"] / t["mib"] for o, t in zip(ours, theirs, strict=True))
    median = {name: statistics.median(run["seconds"] for run in runs) for name, runs in taken.items()}
    mib = {name: statistics.median(run["mib"] for run in runs) for name, runs in taken.items()}
    yield Row(
        group="load",
        name="load 100k rules, against pycasbin's bare load",
        value=load,
        bound=1.0,
        us=median["remit"] * 1e6,
        note=f"pycasbin {median['pycasbin']:.2f} s",
    )
    yield Row(
        group="load",
        name="memory for 100k rules, against pycasbin",
        value=memory,
        bound=2.0,
        note=f"{mib['remit']:.0f} MiB, pycasbin {mib['pycasbin']:.0f} MiB",
    )
