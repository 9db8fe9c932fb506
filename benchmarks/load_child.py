"""Loads a policy of a given size once and reports seconds and growth of memory. Run by `bench_load`."""

from __future__ import annotations

import gc
import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.worlds import world

PAGE = resource.getpagesize()


def resident() -> int:
    """Bytes of memory in use now (Linux), else the most that were ever in use."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * PAGE
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def measured(load: Callable[[], Any]) -> dict[str, float]:
    gc.collect()
    before = resident()
    start = time.perf_counter()
    kept = load()
    seconds = time.perf_counter() - start
    gc.collect()
    grown = resident() - before
    del kept
    return {"seconds": seconds, "mib": grown / 2**20}


def main(engine: str, size: str) -> dict[str, float]:
    from benchmarks import subjects

    tested = world(size)
    with subjects.folder() as place:
        if engine == "remit":
            from remit.providers.casbin import CasbinAuthorizationProvider

            options = subjects.write(tested, place)
            warm = place / "warm"
            warm.mkdir()
            CasbinAuthorizationProvider(**subjects.write(world("30"), warm))  # imports are not part of loading
            return measured(lambda: CasbinAuthorizationProvider(**options))
        if engine == "pycasbin":
            import casbin

            subjects.write(tested, place, "three-part")
            return measured(lambda: casbin.Enforcer(str(place / "model.conf"), str(place / "policy.csv")))
    raise SystemExit(f"unknown engine {engine!r}")


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
