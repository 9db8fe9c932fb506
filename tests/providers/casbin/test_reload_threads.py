"""Decisions while the policy is replaced: never a mixture, never an exception, never an old answer after the swap."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.blocking import no_blocking_calls
from tests.support.waiting import eventually

from remit.authz.types import AuthzDecision, AuthzRequest, Principal
from remit.providers.casbin import CasbinAuthorizationProvider

TOOLS = 60
THREADS = 8


def rows(version: int) -> str:
    """Even versions allow even tools and deny the others, odd versions the other way round; both by condition, too."""
    out = [f"p, role:marker, tool, v{version}, call, allow,\n"]
    for n in range(TOOLS):
        effect = "allow" if (n + version) % 2 == 0 else "deny"
        out.append(f"p, role:base, tool, t{n}, call, {effect},\n")
        out.append(f"p, role:base, tool, c{n}, call, allow, r.ctx.args.n == {(n + version) % 2}\n")
    out.append("g, role:user, role:base\n")
    return "".join(out)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "policy.csv").write_text(rows(0))
    return tmp_path


@pytest.fixture(autouse=True)
def quick_switches() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


def write(folder: Path, version: int) -> None:
    fresh = folder / "fresh"
    fresh.write_text(rows(version))
    fresh.replace(folder / "policy.csv")


PRINCIPALS = [Principal(f"u{n}", "user") for n in range(4)]
REQUESTS = [
    (n, AuthzRequest(PRINCIPALS[n % 4], "tool", "call", f"{kind}{n}", {"args": {"n": 0}}))
    for n in range(TOOLS)
    for kind in "tc"
]
PAIRS = [AuthzRequest(PRINCIPALS[0], "tool", "call", f"t{n}") for n in (0, 1)]


def check(decision: AuthzDecision, n: int, parity: dict[str, int], wrong: list[object]) -> None:
    """Each policy version has one right answer for each tool."""
    expected = (n + parity[decision.policy_version or ""]) % 2 == 0
    if decision.allow is not expected:
        wrong.append((n, decision))


def test_eight_threads_decide_while_one_reloads(folder: Path) -> None:
    provider = CasbinAuthorizationProvider(policies=["policy.csv"], base_dir=folder)
    parity = {provider.policy_version: 0}
    write(folder, 1)
    parity[provider.reload().version] = 1
    wrong: list[object] = []
    stop, decided = threading.Event(), [0] * THREADS

    def work(number: int) -> None:
        try:
            while not stop.is_set():
                for n, request in REQUESTS:
                    check(provider.authorize(request), n, parity, wrong)
                first, second = provider.authorize_many(PAIRS)
                if first.allow is second.allow or first.policy_version != second.policy_version:
                    wrong.append((first, second))
                shown = provider.filter_resources(PRINCIPALS[0], "tool", ["t0", "t1", "c0", "c1"])
                if shown not in (["t0", "c0", "c1"], ["t1", "c0", "c1"]):
                    wrong.append(shown)
                decided[number] += 1
        except Exception as exc:
            wrong.append(exc)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    try:
        for version in range(2, 40):
            write(folder, version % 2)
            provider.reload()
            now = provider.authorize(PAIRS[0])
            if now.allow is not (version % 2 == 0):
                wrong.append(("old answer after the swap", now))
        eventually(lambda: all(decided) or bool(wrong), 30)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert wrong == []
    assert provider.reloads == (39, 0)


def test_reloads_at_the_same_time_end_with_the_newest_files(folder: Path) -> None:
    provider = CasbinAuthorizationProvider(policies=["policy.csv"], base_dir=folder)
    for version in range(1, 12):
        barrier = threading.Barrier(THREADS)
        failed: list[object] = []

        def reload(version: int = version, barrier: threading.Barrier = barrier, failed: list[object] = failed) -> None:
            barrier.wait()
            write_version = threading.current_thread().name == "writer"
            if write_version:
                write(folder, version)
            snapshot = provider.reload()
            marker = AuthzRequest(Principal("m", "marker"), "tool", "call", f"v{version}")
            if write_version and not snapshot.authorize(marker).allow:
                failed.append("the reload after the write does not hold what was written")
            if write_version and not provider.authorize(marker).allow:
                failed.append("an older load replaced a newer one")

        names = ["writer", *(f"r{n}" for n in range(THREADS - 1))]
        threads = [threading.Thread(target=reload, name=name) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        marker = AuthzRequest(Principal("m", "marker"), "tool", "call", f"v{version}")
        assert provider.authorize(marker).allow


async def test_the_event_loop_decides_while_files_change(folder: Path) -> None:
    provider = CasbinAuthorizationProvider(policies=["policy.csv"], base_dir=folder, watch=True)
    parity = {provider.policy_version: 0}
    wrong: list[object] = []
    try:
        for version in range(1, 4):
            await asyncio.to_thread(write, folder, version)
            deadline = asyncio.get_running_loop().time() + 5
            with no_blocking_calls():
                in_force = False
                while not in_force:  # and once more, when it is
                    in_force = provider.reloads.accepted == version
                    assert asyncio.get_running_loop().time() < deadline
                    for n, request in REQUESTS:
                        decision = await provider.aauthorize(request)
                        seen = decision.policy_version or ""
                        if seen not in parity:  # a version that came in during this round
                            parity[seen] = version % 2
                        check(decision, n, parity, wrong)
                    await provider.aauthorize_many(PAIRS)
                    await provider.afilter_resources(PRINCIPALS[0], "tool", ["t0", "t1"])
                    await asyncio.sleep(0)
    finally:
        await provider.aclose()
    assert wrong == []
    assert len(parity) == 4


async def test_first_sight_of_everything_does_not_block_the_loop(folder: Path) -> None:
    """Conditions and explanations load no table and read no file while they are evaluated."""
    (folder / "policy.csv").write_text(
        "p, role:user, tool, **, call, deny, \"in_domain(r.ctx.args.u, 'b\u00fccher.de') or r.ctx.args.s == 'drop'\"\n"
        "p, role:user, tool, *_x, call, allow, \"glob(r.ctx.args.p, '/a/*/**')\"\n"
    )
    provider = CasbinAuthorizationProvider(policies=["policy.csv"], base_dir=folder)
    with no_blocking_calls():
        for args in ({"u": "https://b\u00fccher.de"}, {"s": "dr\u03bfp"}, {"u": "http://[::1]/"}, {"p": "/a/b/c"}, {}):
            request = AuthzRequest(PRINCIPALS[0], "tool", "call", "some_x", {"args": args})
            assert not (await provider.aauthorize(request)).allow
        await provider.afilter_resources(PRINCIPALS[0], "tool", ["a/b", "c_x"])
