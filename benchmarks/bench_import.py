"""What `import remit.authz` adds to the start of an interpreter, bytecode present, in fresh processes."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

from benchmarks.measure import Row
from benchmarks.processes import ROOT

ROUNDS = 15


def rows(seconds: float) -> Iterator[Row]:
    """`seconds` is ignored: one start takes as long as it takes."""
    for warm in ("import remit.authz", "import langchain.agents"):
        _start(warm)  # writes the bytecode
    bare, ours = [], []
    for _ in range(ROUNDS):
        bare.append(_start("pass"))
        ours.append(_start("import remit.authz"))
    added = statistics.median(o - b for o, b in zip(ours, bare, strict=True))
    yield Row(
        group="import",
        name="import remit.authz, over the bare interpreter",
        value=added * 1e3,
        unit="ms",
        bound=60.0,
        us=added * 1e6,
        note=f"interpreter alone {statistics.median(bare) * 1e3:.0f} ms",
    )
    langchain = statistics.median(_start("import langchain.agents") for _ in range(3)) - statistics.median(bare)
    yield Row(
        group="import",
        name="import langchain.agents, for comparison",
        value=langchain * 1e3,
        unit="ms",
        us=langchain * 1e6,
    )


def _start(code: str) -> float:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-P", "-c", code], check=True, cwd=ROOT, env=environment)
    return time.perf_counter() - begin
