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
OURS = "import remit.authz"
USED = "from remit.authz import Enforcer, load_config; import remit.providers.casbin"
"""What a process imports that decides: the names above are resolved at first use."""


def rows(seconds: float) -> Iterator[Row]:
    """`seconds` is ignored: one start takes as long as it takes."""
    for warm in (OURS, USED, "import langchain.agents"):
        _start(warm)  # writes the bytecode
    bare, ours, used = [], [], []
    for _ in range(ROUNDS):
        bare.append(_start("pass"))
        ours.append(_start(OURS))
        used.append(_start(USED))
    added, needed = (statistics.median(t - b for t, b in zip(side, bare, strict=True)) for side in (ours, used))
    yield Row(
        group="import",
        name="import remit.authz, over the bare interpreter",
        value=added * 1e3,
        unit="ms",
        bound=60.0,
        us=added * 1e6,
        note=f"interpreter alone {statistics.median(bare) * 1e3:.0f} ms",
    )
    yield Row(
        group="import",
        name="the same, and all that a decision needs",
        value=needed * 1e3,
        unit="ms",
        us=needed * 1e6,
        note="enforcer, configuration, Casbin provider",
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
