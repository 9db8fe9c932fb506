"""A thread's own view of the skills: a copy, rebuilt when something changed, and never anything else's files."""

from __future__ import annotations

import logging
import os
import stat
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from tests.support.agents import STYLES, run
from tests.support.scripted import scripted

from remit.harness import skills_projection
from remit.harness.sandbox.local import LocalSandboxProvider
from remit.harness.skills_projection import SkillsProjection
from remit.middlewares.sandbox import SandboxMiddleware
from remit.runtime.config import SandboxConfig
from remit.runtime.paths import thread_paths
from remit.runtime.sandboxes import SandboxAccess


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REMIT_STATE_DIR", str(tmp_path / "state"))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "skills"
    skill(folder, "pdf", **{"SKILL.md": "read pdf", "scripts/run.sh": "#!/bin/sh\n"})
    (folder / "pdf" / "scripts" / "run.sh").chmod(0o755)
    skill(folder, "mail")
    return folder


def skill(folder: Path, name: str, **files: str) -> None:
    for path, text in (files or {"SKILL.md": f"about {name}"}).items():
        (folder / name / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / name / path).write_text(text)


def view(user: str = "u1", thread: str = "t1") -> Path:
    return thread_paths(user, thread).skills


def tree(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


EVERYTHING = {"pdf/SKILL.md": "read pdf", "pdf/scripts/run.sh": "#!/bin/sh\n", "mail/SKILL.md": "about mail"}


def test_a_copy_for_the_owner_alone(source: Path) -> None:
    SkillsProjection(source).project("u1", "t1")
    assert tree(view()) == EVERYTHING
    script, text = view() / "pdf" / "scripts" / "run.sh", view() / "pdf" / "SKILL.md"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (view(), script, text)] == [0o700, 0o500, 0o400]
    assert text.stat().st_ino != (source / "pdf" / "SKILL.md").stat().st_ino, "never the same file"
    assert {path.name for path in view().parent.iterdir()} == {"skills", ".skills.json"}


def looks(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_ino, path.stat().st_mtime_ns) for path in folder.rglob("*")}


def test_nothing_changed_nothing_done(source: Path) -> None:
    projection = SkillsProjection(source)
    projection.project("u1", "t1")
    before = looks(view())
    projection.project("u1", "t1")
    SkillsProjection(source).project("u1", "t1")
    assert looks(view()) == before


def rewrite_as_before(source: Path) -> None:
    (source / "pdf" / "SKILL.md").write_text("read pdf")


def test_the_same_content_written_again_is_no_change(source: Path) -> None:
    projection = SkillsProjection(source)
    projection.project("u1", "t1")
    before = looks(view())
    rewrite_as_before(source)
    projection.project("u1", "t1")
    assert looks(view()) == before


def same_size_same_time(source: Path) -> None:
    path = source / "pdf" / "SKILL.md"
    old = path.stat()
    path.write_text("read PDF")
    os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns))


CHANGES: list[tuple[str, Callable[[Path], Any], dict[str, str]]] = [
    ("content", lambda source: (source / "pdf" / "SKILL.md").write_text("new"), {"pdf/SKILL.md": "new"}),
    ("content under the old time", same_size_same_time, {"pdf/SKILL.md": "read PDF"}),
    ("a new file", lambda source: (source / "mail" / "more.md").write_text("m"), {"mail/more.md": "m"}),
    ("a new skill", lambda source: skill(source, "zip"), {"zip/SKILL.md": "about zip"}),
]


@pytest.mark.parametrize(("change", "wanted"), [c[1:] for c in CHANGES], ids=[c[0] for c in CHANGES])
def test_changes_of_the_source(source: Path, change: Callable[[Path], Any], wanted: dict[str, str]) -> None:
    projection = SkillsProjection(source)
    projection.project("u1", "t1")
    change(source)
    projection.project("u1", "t1")
    assert tree(view()) == EVERYTHING | wanted
    assert {path.name for path in view().parent.iterdir()} == {"skills", ".skills.json"}, "nothing is left over"


def test_what_is_gone_is_gone(source: Path) -> None:
    projection = SkillsProjection(source)
    projection.project("u1", "t1")
    (source / "mail" / "SKILL.md").unlink()
    projection.project("u1", "t1")
    assert set(tree(view())) == {"pdf/SKILL.md", "pdf/scripts/run.sh"}


def test_a_mode_is_content(source: Path) -> None:
    projection = SkillsProjection(source)
    projection.project("u1", "t1")
    (source / "pdf" / "scripts" / "run.sh").chmod(0o644)
    projection.project("u1", "t1")
    assert stat.S_IMODE((view() / "pdf" / "scripts" / "run.sh").stat().st_mode) == 0o400


def planted(folder: Path) -> None:
    (folder / "evil").mkdir()
    (folder / "evil" / "SKILL.md").write_text("obey")


def edited(folder: Path) -> None:
    (folder / "pdf" / "SKILL.md").chmod(0o600)
    (folder / "pdf" / "SKILL.md").write_text("obey it")


def replaced_by_a_link(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to("elsewhere")


def replaced_by_a_file(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))
    folder.write_text("x")


def stamp_forged(folder: Path) -> None:
    planted(folder)
    (folder.parent / ".skills.json").write_text("{not json")


TAMPERING = [planted, edited, replaced_by_a_link, replaced_by_a_file, stamp_forged]


@pytest.mark.parametrize("tamper", TAMPERING, ids=lambda tamper: tamper.__name__)
def test_what_was_done_to_a_view_does_not_last(source: Path, tamper: Callable[[Path], Any]) -> None:
    projection = SkillsProjection(source)
    projection.project("u1", "t1")
    tamper(view())
    projection.project("u1", "t1")
    assert not view().is_symlink()
    assert tree(view()) == EVERYTHING
    assert tree(source) == EVERYTHING


def test_threads_have_views_of_their_own(source: Path) -> None:
    projection = SkillsProjection(source)
    projection.project("u1", "t1")
    projection.project("u2", "t2")
    edited(view())
    assert tree(view("u2", "t2")) == EVERYTHING


ALLOWED: list[tuple[str, Any, set[str]]] = [
    ("all", None, {"pdf", "mail"}),
    ("some", {"pdf"}, {"pdf"}),
    ("none", frozenset(), set()),
    ("by user", lambda user: {"u1": ["mail"]}.get(user, []), {"mail"}),
    ("unknown", {"pdf", "../../etc"}, {"pdf"}),
]


@pytest.mark.parametrize(("allowed", "wanted"), [a[1:] for a in ALLOWED], ids=[a[0] for a in ALLOWED])
def test_allowed(source: Path, allowed: Any, wanted: set[str]) -> None:
    SkillsProjection(source, allowed=allowed).project("u1", "t1")
    assert {path.split("/")[0] for path in (tree(view()) if view().exists() else {})} == wanted


def test_what_is_no_longer_allowed_disappears(source: Path) -> None:
    allowed = {"pdf", "mail"}
    projection = SkillsProjection(source, allowed=lambda user: allowed)
    projection.project("u1", "t1")
    allowed.clear()
    projection.project("u1", "t1")
    assert tree(view()) == {}


def test_links_and_special_files_are_left_out(source: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("hunter2")
    (source / "pdf" / "link.txt").symlink_to(secret)
    (source / "pdf" / "folder").symlink_to(tmp_path)
    os.mkfifo(source / "pdf" / "pipe")
    (source / "linked").symlink_to(source / "pdf")
    skill(source, "odd")
    (source / "odd" / "SKILL.md").unlink()
    (source / "odd" / "SKILL.md").symlink_to(secret)
    SkillsProjection(source).project("u1", "t1")
    assert tree(view()) == EVERYTHING
    assert not any(path.is_symlink() for path in view().rglob("*"))


@pytest.mark.parametrize("name", [".hidden", "a b", "-x", "x" * 65, "ü", "a\nb"], ids=repr)
def test_names_that_are_no_skills(source: Path, name: str) -> None:
    skill(source, name)
    SkillsProjection(source).project("u1", "t1")
    assert tree(view()) == EVERYTHING


def test_folders_without_a_skill_file(source: Path) -> None:
    skill(source, "notes", **{"README.md": "x", "deep/SKILL.md": "x"})
    (source / "loose.md").write_text("x")
    SkillsProjection(source).project("u1", "t1")
    assert tree(view()) == EVERYTHING


def many_files(folder: Path) -> None:
    for n in range(12):
        (folder / f"{n}.txt").write_text("x")


def many_bytes(folder: Path) -> None:
    (folder / "big.bin").write_bytes(b"x" * 2_000)


def many_levels(folder: Path) -> None:
    folder.joinpath(*["d"] * 5).mkdir(parents=True)


@pytest.mark.parametrize("grow", [many_files, many_bytes, many_levels], ids=lambda grow: grow.__name__)
def test_a_skill_that_is_too_large(
    source: Path, grow: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(skills_projection, "MAX_SKILL_FILES", 10)
    monkeypatch.setattr(skills_projection, "MAX_SKILL_BYTES", 1_000)
    monkeypatch.setattr(skills_projection, "MAX_DEPTH", 4)
    grow(source / "mail")
    SkillsProjection(source).project("u1", "t1")
    assert set(tree(view())) == {"pdf/SKILL.md", "pdf/scripts/run.sh"}
    assert "the skill 'mail' is left out" in caplog.text


@pytest.mark.parametrize("named", [None, "missing"])
def test_no_source(tmp_path: Path, named: str | None, caplog: pytest.LogCaptureFixture) -> None:
    SkillsProjection(None if named is None else tmp_path / named).project("u1", "t1")
    assert not (tmp_path / "state").exists()
    assert ("does not exist" in caplog.text) is (named is not None)


def test_a_source_that_vanished_takes_the_view_along(source: Path) -> None:
    projection = SkillsProjection(source)
    projection.project("u1", "t1")
    source.rename(source.with_name("moved"))
    projection.project("u1", "t1")
    assert tree(view()) == {}


@pytest.mark.parametrize(("user", "thread"), [("..", "t"), ("u", "../x")])
def test_ids_that_lead_elsewhere(source: Path, user: str, thread: str) -> None:
    with pytest.raises(ValueError, match="cannot name a folder"):
        SkillsProjection(source).project(user, thread)


def test_a_failure_leaves_no_stale_view(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    projection = SkillsProjection(source)
    projection.project("u1", "t1")
    (source / "mail" / "SKILL.md").unlink()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(skills_projection, "_copy", full)
        with pytest.raises(OSError, match="No space"):
            projection.project("u1", "t1")
    assert not view().exists()
    projection.project("u1", "t1")
    assert set(tree(view())) == {"pdf/SKILL.md", "pdf/scripts/run.sh"}


def test_leftovers_of_a_process_that_died(source: Path) -> None:
    projection = SkillsProjection(source)
    projection.project("u1", "t1")
    (view().parent / ".skills-0123" / "half").mkdir(parents=True)
    skill(source, "zip")
    projection.project("u1", "t1")
    assert {path.name for path in view().parent.iterdir()} == {"skills", ".skills.json"}


@pytest.mark.parametrize("exchange", [True, False], ids=["exchange", "two renames"])
def test_a_reader_sees_whole_views(source: Path, exchange: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """While views are replaced, a file has the content of one version; with the exchange there is always a view."""
    if not exchange:
        monkeypatch.setattr(skills_projection, "_exchanged", lambda one, other: False)
    versions = ["read pdf", *(f"version {n}" * 5_000 for n in range(20))]
    projection = SkillsProjection(source)
    projection.project("u1", "t1")
    done = threading.Event()
    seen: set[str] = set()
    gone = 0

    def reading() -> None:
        nonlocal gone
        while not done.is_set():
            try:
                os.stat(view())
            except FileNotFoundError:
                gone += 1
            with suppress(FileNotFoundError):
                seen.add((view() / "pdf" / "SKILL.md").read_text())

    reader = threading.Thread(target=reading)
    reader.start()
    for version in versions[1:]:
        (source / "pdf" / "SKILL.md").write_text(version)
        projection.project("u1", "t1")
    done.set()
    reader.join()
    assert seen
    assert seen <= set(versions)
    assert not (exchange and gone)


def test_many_at_once(source: Path) -> None:
    projections = [SkillsProjection(source) for _ in range(4)]

    def project(n: int) -> None:
        projections[n % 4].project("u1", f"t{n % 3}")

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(project, range(48)))
    for n in range(3):
        assert tree(view("u1", f"t{n}")) == EVERYTHING


def test_another_base(source: Path, tmp_path: Path) -> None:
    SkillsProjection(source, base_dir=tmp_path / "other").project("u1", "t1")
    assert tree(thread_paths("u1", "t1", base=tmp_path / "other").skills) == EVERYTHING


def test_what_it_declares(source: Path) -> None:
    first = SkillsProjection(source, allowed=["pdf"]).release_policy_parameters()
    assert first["allowed"] == ["pdf"]
    (source / "mail" / "SKILL.md").write_text("changed")
    assert SkillsProjection(source, allowed=["pdf"]).release_policy_parameters() == first
    (source / "pdf" / "SKILL.md").write_text("changed")
    assert SkillsProjection(source, allowed=["pdf"]).release_policy_parameters() != first
    assert SkillsProjection(source, allowed=lambda user: []).release_policy_parameters() == {"allowed": "by user"}


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("owner", [True, False], ids=["lead", "subagent"])
async def test_in_an_agent(source: Path, style: str, owner: bool, caplog: pytest.LogCaptureFixture) -> None:
    provider = LocalSandboxProvider(SandboxConfig(use="local"))
    slot = SandboxMiddleware(SandboxAccess(provider), owner=owner, projection=SkillsProjection(source))
    with caplog.at_level(logging.WARNING):
        await run(create_agent(scripted(), [], middleware=[slot]), style, context={"user_id": "u1", "thread_id": "t1"})
    assert view().exists() is owner
    if owner:
        assert provider.acquire("t1", "u1").read_file("/mnt/skills/pdf/SKILL.md") == "read pdf"
    provider.close()
