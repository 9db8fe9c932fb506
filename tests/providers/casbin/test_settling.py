"""When a changed file is taken: real files, and a clock that the test moves."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from remit.providers.casbin.settling import (
    GATHER_SECONDS,
    QUIET_SECONDS,
    RETRY_SECONDS,
    Event,
    Settling,
    turning_points,
)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class World:
    """Two policy files and what follows them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clock = folder, Clock()
        self.policy, self.roles = folder / "policy.csv", folder / "roles.yaml"
        self.policy.write_text("one")
        self.roles.write_text("one")
        self.settling = Settling([str(self.policy), str(self.roles)], clock=self.clock)

    def after(self, seconds: float, *events: Event) -> bool:
        self.clock.now += seconds + 1e-6
        return self.settling.look(events)

    def take(self, accepted: bool = True) -> None:
        self.settling.took(self.settling.digests(), accepted=accepted)

    def replace(self, path: Path, text: str) -> Event:
        """Put a finished file in place, as editors and configuration tools do."""
        fresh = path.with_name("fresh")
        fresh.write_text(text)
        fresh.replace(path)
        return ("added", str(path))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_nothing_changed(world: World) -> None:
    assert not world.after(0.1)
    assert not world.after(QUIET_SECONDS)
    assert not world.after(100)


def test_a_replaced_file_is_taken_at_once(world: World) -> None:
    event = world.replace(world.policy, "two")
    assert not world.after(0.01, event)
    assert world.after(GATHER_SECONDS)
    world.take()
    assert not world.after(GATHER_SECONDS)
    assert not world.after(QUIET_SECONDS)


def test_a_replaced_file_is_known_without_a_notification(world: World) -> None:
    fresh = world.folder / "fresh"
    fresh.write_text("two")
    os.utime(fresh, (1, 1))  # written long before it was put in place
    fresh.replace(world.policy)
    world.after(0.01)
    assert world.after(GATHER_SECONDS)


def test_a_late_notification_still_says_that_a_file_was_put_there_whole(world: World) -> None:
    event = world.replace(world.policy, "two")  # written and renamed within one tick of the clock
    assert not world.after(0.01)
    assert not world.after(GATHER_SECONDS * 2)
    assert not world.after(0.01, event)
    assert world.after(GATHER_SECONDS)


def test_a_late_notification_of_a_write_does_not(world: World) -> None:
    world.policy.rename(world.folder / "old")
    world.policy.write_text("tw")
    assert not world.after(0.01)
    assert not world.after(0.01, ("added", str(world.policy)), ("modified", str(world.policy)))
    assert not world.after(GATHER_SECONDS)
    assert not world.after(0.01, ("added", str(world.policy)))
    assert not world.after(GATHER_SECONDS)
    assert world.after(QUIET_SECONDS)


def test_files_replaced_together_are_taken_together(world: World) -> None:
    world.after(0.01, world.replace(world.policy, "two"))
    assert not world.after(GATHER_SECONDS * 0.9, world.replace(world.roles, "two"))
    assert not world.after(GATHER_SECONDS * 0.9)
    assert world.after(GATHER_SECONDS)


def test_a_file_written_in_place_must_be_quiet(world: World) -> None:
    world.policy.write_text("tw")
    assert not world.after(0.01)
    assert not world.after(QUIET_SECONDS * 0.9)
    world.policy.write_text("two")
    assert not world.after(0.01)
    assert not world.after(QUIET_SECONDS * 0.9)
    assert world.after(QUIET_SECONDS * 0.2)


def test_a_file_made_anew_in_place_must_be_quiet(world: World) -> None:
    """Removed, created and half written between two looks: another file, but not a finished one."""
    world.policy.rename(world.folder / "old")
    world.policy.write_text("tw")
    path = str(world.policy)
    assert not world.after(0.01, ("deleted", path), ("added", path), ("modified", path))
    assert not world.after(GATHER_SECONDS)
    assert world.after(QUIET_SECONDS)


def test_an_empty_new_file_must_be_quiet(world: World) -> None:
    assert not world.after(0.01, world.replace(world.policy, ""))
    assert not world.after(GATHER_SECONDS)
    assert world.after(QUIET_SECONDS)


def test_one_file_written_in_place_holds_up_the_replaced_one(world: World) -> None:
    world.roles.write_text("tw")
    assert not world.after(0.01, world.replace(world.policy, "two"))
    assert not world.after(GATHER_SECONDS)
    assert world.after(QUIET_SECONDS)


def test_two_equal_reads(world: World) -> None:
    """A write that changes neither size nor times (coarse clocks, network file systems) is seen by its content."""
    world.policy.write_text("tw0")
    assert not world.after(0.01)
    unseen_write(world, "two")
    assert not world.after(QUIET_SECONDS)
    assert world.after(QUIET_SECONDS)


def test_content_is_compared_again_after_a_load(world: World) -> None:
    world.after(0.01, world.replace(world.policy, "two"))
    assert world.after(GATHER_SECONDS)
    world.take()
    unseen_write(world, "TWO")
    assert not world.after(QUIET_SECONDS)
    assert world.after(QUIET_SECONDS)


def unseen_write(world: World, text: str) -> None:
    world.policy.write_text(text)
    path = str(world.policy)
    world.settling._seen[path] = type(world.settling._seen[path]).of(path)


def test_a_notification_is_enough(world: World) -> None:
    """Where time stamps are too coarse the notification says that something was written."""
    unseen_write(world, "TWO")
    assert not world.after(0.01, ("modified", str(world.policy)))
    assert world.after(QUIET_SECONDS)


def test_a_touched_file_is_not_loaded_again(world: World) -> None:
    os.utime(world.policy)
    assert not world.after(0.01)
    assert not world.after(QUIET_SECONDS)


def test_a_deleted_file_is_reported_after_a_while(world: World) -> None:
    world.policy.unlink()
    assert not world.after(0.01, ("deleted", str(world.policy)))
    assert not world.after(GATHER_SECONDS)
    assert world.after(QUIET_SECONDS)
    world.take(accepted=False)
    assert not world.after(QUIET_SECONDS)
    world.after(0.01, world.replace(world.policy, "one"))
    assert world.after(GATHER_SECONDS)


def test_a_file_that_is_gone_for_a_moment_is_no_news(world: World) -> None:
    world.policy.rename(world.folder / "old")
    assert not world.after(0.01)
    (world.folder / "old").rename(world.policy)
    assert not world.after(0.01)
    assert not world.after(QUIET_SECONDS)


def test_a_refused_set_is_tried_again_now_and_then(world: World) -> None:
    world.after(0.01, world.replace(world.policy, "bad"))
    assert world.after(GATHER_SECONDS)
    world.take(accepted=False)
    waits = []
    for _ in range(8):
        waited = 0.5
        while not world.after(0.5):
            waited += 0.5
        waits.append(waited)
        world.take(accepted=False)
    assert waits == [2, 4, 8, 16, 32, 60, 60, 60]
    assert (waits[0], waits[-1]) == RETRY_SECONDS
    world.after(0.01, world.replace(world.policy, "good"))
    assert world.after(GATHER_SECONDS)
    world.take()
    assert not any(world.after(10) for _ in range(20))


def test_a_swapped_link_is_taken_at_once(tmp_path: Path) -> None:
    for version in ("v1", "v2"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "policy.csv").write_text(version)
    (tmp_path / "..data").symlink_to("v1")
    (tmp_path / "policy.csv").symlink_to("..data/policy.csv")
    clock = Clock()
    settling = Settling([str(tmp_path / "policy.csv")], clock=clock)
    (tmp_path / "..tmp").symlink_to("v2")
    (tmp_path / "..tmp").replace(tmp_path / "..data")
    assert not settling.look()
    clock.now += GATHER_SECONDS + 1e-6
    assert settling.look()


def test_a_change_before_the_first_look_is_seen(world: World) -> None:
    world.policy.write_text("changed while the policy was loaded")
    world.take()
    world.policy.write_text("and again")
    assert not world.after(0.01)
    assert world.after(QUIET_SECONDS)


@pytest.mark.parametrize(
    ("links", "path", "points"),
    [
        pytest.param({}, "a/policy.csv", {"a/policy.csv"}, id="plain"),
        pytest.param({"a/policy.csv": "../b/p.csv"}, "a/policy.csv", {"a/policy.csv", "b/p.csv"}, id="file"),
        pytest.param({"c": "a"}, "c/policy.csv", {"c", "a/policy.csv"}, id="folder"),
        pytest.param(
            {"a/..data": "..v1", "a/policy.csv": "..data/policy.csv"},
            "a/policy.csv",
            {"a/..data", "a/policy.csv", "a/..v1/policy.csv"},
            id="mounted-configuration",
        ),
        pytest.param({"a/x": "y", "a/y": "x"}, "a/x/policy.csv", {"a/x", "a/y"}, id="loop"),
        pytest.param({"a/policy.csv": "gone"}, "a/policy.csv", {"a/policy.csv", "a/gone"}, id="dangling"),
    ],
)
def test_turning_points(tmp_path: Path, links: dict[str, str], path: str, points: set[str]) -> None:
    for folder in ("a/..v1", "b"):
        (tmp_path / folder).mkdir(parents=True)
    for name, target in links.items():
        (tmp_path / name).symlink_to(target)
    assert turning_points(str(tmp_path / path)) - {str(tmp_path / "a")} == {str(tmp_path / point) for point in points}
