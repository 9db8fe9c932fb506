"""What it costs to judge a shell command: short ones, scripts of the longest kind, and input that is meant to hurt.

Time is the processor time of this thread, and of several runs the median. Nothing is run but the classifier.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

from benchmarks.measure import Row, settle
from remit.middlewares.sandbox_audit import classify
from remit.middlewares.sandbox_audit.verdicts import MAX_COMMAND

SHORT = ("ls -la", 'git commit -m "fix"', "curl -s http://u | jq .", "for f in *.py; do echo $f; done")
BLOCK = """#!/bin/bash
set -euo pipefail
# build everything
for f in src/*.py; do
  if [ -f "$f" ]; then
    echo "checking $f" >> log.txt
    python3 -m py_compile "$f" || { echo "bad: $f"; exit 1; }
  fi
done
VERSION=$(git describe --tags | sed 's/^v//')
cat > out.md <<'EOF'
some text here $VERSION
EOF
grep -rn "TODO" src | awk -F: '{print $1}' | sort | uniq -c | sort -rn | head -20
case "$1" in
  start) docker compose up -d ;;
  stop) docker compose down ;;
  *) echo "usage: $0 {start|stop}"; exit 2 ;;
esac
function build() { local x=${1:-default}; make -j"$(nproc)" "$x"; }
"""
SCRIPTS = {
    "plain commands": "ls -la /tmp/x\n",
    "output into a file": 'echo "step" >> log.txt\n',
    "pipelines": "cat data.csv | cut -d, -f1 | sort | uniq -c > out.txt\n",
    "a bit of everything": BLOCK,
}
HOSTILE = {
    "substitutions in each other": "$(" * 3_300 + ")" * 3_300,
    "brackets": "(" * 10_000,
    "loops that never close": "for((;;" * 1_400,
    "arrays that never close": "a=(" * 3_300,
    "parameters that never close": "${" * 5_000,
    "commands": "a;" * 5_000,
    "a pipeline": "a|" * 4_999 + "a",
    "brace lists": "{a,b}" * 2_000,
    "here-documents": "cat <<A\nx\nA\n" * 830,
    "texts that double": "x=aaaa;" + "x=$x$x;" * 1_200,
    "back quotes in each other": "`a \\`b\\``;" * 1_000,
}


def rows(seconds: float) -> Iterator[Row]:
    settle()
    for command in SHORT:
        spent = _median(command, max(20, int(seconds * 500)))
        yield Row(group="shell", name=command, value=spent / 1e6, unit="ms", bound=1.0, us=spent / 1e3)
    for name, piece in SCRIPTS.items():
        script = _filled(piece)
        if classify(script).verdict != "pass":
            raise AssertionError(f"{name}: {classify(script)}")
        spent = _median(script, max(5, int(seconds * 20)))
        yield Row(
            group="shell",
            name=f"10,000 characters: {name}",
            value=spent / 1e6,
            unit="ms",
            bound=15.0,
            us=spent / 1e3,
            note=f"{len(script.splitlines())} lines",
        )
    worst, name = max((_median(command[:MAX_COMMAND], 3), name) for name, command in HOSTILE.items())
    yield Row(group="shell", name="hostile input, the worst", value=worst / 1e6, unit="ms", bound=250.0, note=name)


def _filled(piece: str) -> str:
    return piece * (MAX_COMMAND // len(piece))


def _median(command: str, times: int) -> float:
    taken: list[int] = []
    for _ in range(times):
        start = time.thread_time_ns()
        classify(command)
        taken.append(time.thread_time_ns() - start)
    return statistics.median(taken)
