"""Looks after policy files in a background thread and calls back when they should be loaded again.

File system notifications make it quick. A look every tenth of a second makes it certain: on file systems without
notifications, after a watched folder was replaced, when the notification queue overflowed.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Callable
from typing import Any, Final
from weakref import WeakMethod, WeakSet

from remit.providers.casbin.settling import Event, Settling, turning_points

logger = logging.getLogger("remit.providers.casbin")

STEP_MS: Final = 25
LOOK_MS: Final = 100
_LOOKS_WITHOUT: Final = 50
"""Looks before notifications are asked for again after they failed."""
_START_SECONDS: Final = 1.0
_CLOSE_SECONDS: Final = 5.0

_Points = dict[str, tuple[tuple[int, int], set[str]]]
"""Folder to follow -> what makes it that very folder, and the paths in it that matter."""

_running: WeakSet[PolicyWatch] = WeakSet()


class PolicyWatch:
    """One thread that watches some files.

    It holds its owner weakly: when that is collected, the thread ends by itself.

    Args:
        settling: Which files, and when they are ready.
        reload: A bound method, called in the thread. What it raises is logged.
    """

    def __init__(self, settling: Settling, reload: Callable[[], object]) -> None:
        self.settling = settling
        self._reload = WeakMethod(reload)
        self._stop = threading.Event()
        self._on = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin, and return when notifications are on: from then on no replaced file can be missed."""
        self._begin()
        self._on.wait(_START_SECONDS)

    def _begin(self) -> None:
        self._stop = threading.Event()
        self._on.clear()
        self._thread = threading.Thread(target=self._run, args=(self._stop,), name="remit-policy-watch", daemon=True)
        _running.add(self)
        self._thread.start()

    def reborn(self) -> None:
        """Begin again in a forked child, which has none of its parent's threads."""
        if not self._stop.is_set():
            self.settling.reborn()
            self._on = threading.Event()
            self._begin()

    def stop(self) -> None:
        """Ask the thread to end, without waiting for it."""
        self._stop.set()

    def close(self) -> None:
        """End the thread and wait until it has ended. Repeated calls do nothing."""
        self._stop.set()
        _running.discard(self)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_CLOSE_SECONDS)

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _run(self, stop: threading.Event) -> None:
        told = False
        while not stop.is_set():
            looks = 1
            points = self._points()
            try:
                if points:
                    self._follow(points, stop)
            except Exception as exc:  # out of watches, a folder that just vanished: looking still works
                self._on.set()
                looks = _LOOKS_WITHOUT
                if not told:
                    logger.warning("no file system notifications for the policy files, looking instead: %s", exc)
                    told = True
            for _ in range(looks):
                if self._tick() is False or stop.wait(LOOK_MS / 1000):
                    return

    def _follow(self, points: _Points, stop: threading.Event) -> None:
        """Look at every notification, and every so often without one, until the folders are not the same any more."""
        from watchfiles import watch  # not needed by processes that do not watch

        changes = watch(
            *points,
            watch_filter=lambda _, path: path in points.get(os.path.dirname(path), ((), ()))[1],
            debounce=4 * STEP_MS,
            step=STEP_MS,
            rust_timeout=LOOK_MS,
            yield_on_timeout=True,
            stop_event=_Signal(stop, self._on),
            raise_interrupt=False,
            recursive=False,
        )
        for looks, batch in enumerate(changes, 1):
            events: list[Event] = [(change.raw_str(), path) for change, path in batch]  # type: ignore[misc]  # its names
            if self._tick(events) is False:
                stop.set()
                return
            if (batch or looks % 10 == 0) and self._points() != points:
                return

    def _tick(self, events: Any = ()) -> bool:
        """Look once. False when there is nobody left to call."""
        if self._reload() is None:
            return False
        try:
            if self.settling.look(events) and (reload := self._reload()) is not None:
                reload()
        except Exception:
            logger.exception("the policy watch failed; it goes on")
        return True

    def _points(self) -> _Points:
        out: _Points = {}
        for point in set().union(*map(turning_points, self.settling.paths)):
            folder = os.path.dirname(point)
            if folder not in out:
                try:
                    found = os.stat(folder)
                except OSError:  # not there, or not ours to look into: asking for the file itself must do
                    continue
                out[folder] = ((found.st_dev, found.st_ino), {point})
            else:
                out[folder][1].add(point)
        return out


class _Signal:
    """The stop event as the notifier asks for it, which tells in return that it is at work."""

    def __init__(self, stop: threading.Event, on: threading.Event) -> None:
        self._stop, self._on = stop, on

    def is_set(self) -> bool:
        self._on.set()
        return self._stop.is_set()


def _stop_all() -> None:
    for watch in list(_running):
        watch.close()


# A thread inside a native library must not meet the end of the interpreter.
atexit.register(_stop_all)
