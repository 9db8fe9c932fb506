"""`DecisionLog`: what the enforcement points talk to. It captures; the sink's thread does the rest."""

from __future__ import annotations

import atexit
import logging
import os
import random
import secrets
import stat
import threading
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Final
from weakref import WeakSet, finalize

from remit.authz.config import AuthorizationConfig, OncePerConfig, state_dir
from remit.authz.errors import ConfigError, Problem
from remit.authz.ledger.record import Masks, Recorder, count_line, is_failure
from remit.authz.ledger.sink import CLOSE_SECONDS, FileSink, Sink, locked
from remit.authz.types import AuthzDecision, AuthzRequest

log = logging.getLogger("remit.authz.ledger")

KEY_BYTES: Final = 32


class DecisionLog:
    """Records decisions. Safe to share between threads and tasks; never raises and never waits.

    It closes itself when it is collected and when the process exits.

    Args:
        sink: Where lines go.
        sample_allow: Share of allowed decisions that are recorded, 0 to 1. Denials, asks and failures always are; the
            next record states how many were left out.
        mask: Names of arguments and attributes whose values are never written (see `Masks`).
        key: Secret with which hashes of arguments are keyed; a new one when None.
    """

    def __init__(
        self, sink: Sink, *, sample_allow: float = 1.0, mask: Iterable[str] = (), key: bytes | None = None
    ) -> None:
        self.sink = sink
        self._recorder = Recorder(key or secrets.token_bytes(KEY_BYTES), Masks(mask))
        self._sample = _Sample(sample_allow)
        self._complained = False
        self._finalizer = finalize(self, _finish, sink, self._sample, 0)  # a collector must not wait for a disk
        self._finalizer.atexit = False
        _live.add(self)

    @classmethod
    def from_config(cls, config: AuthorizationConfig) -> DecisionLog:
        """Open the log that `config.ledger` describes, below `REMIT_STATE_DIR`.

        The key of the log lies beside it in the state folder, readable by its owner alone.

        Raises:
            ConfigError: There is to be no log (``sink: none``), it or its key cannot be opened, the key is open to
                others, or the log would lie in the policy folder.
        """
        section = config.ledger
        if section.sink == "none":
            raise _problem(config, "sink", "is 'none': there is no log to open", "set `sink: file`")
        folder = state_dir().absolute()
        path = folder / section.path
        _outside_policies(config, path)
        try:
            for needed in (folder, path.parent):
                needed.mkdir(mode=0o700, parents=True, exist_ok=True)
            key = _key(config, folder / f"{path.name}.key")
            sink = FileSink(path, required=section.required)
        except OSError as exc:
            advice = "make it writable, or set REMIT_STATE_DIR to a folder that is"
            raise _problem(config, "path", f"{str(path)!r} cannot be opened: {exc}", advice) from exc
        return cls(sink, sample_allow=section.sample_allow, mask=section.mask, key=key)

    def record(self, request: AuthzRequest, decision: AuthzDecision, *, latency_ns: int, guard: str = "authz") -> bool:
        """Note one decision.

        Args:
            request: What was asked. Its arguments are captured as they are now.
            decision: The judged answer.
            latency_ns: How long the answer took.
            guard: Which enforcement point asked.

        Returns:
            False when the decision must not be acted on, because records are required and this one was not accepted.
        """
        try:
            sample, left_out = self._sample, 0
            if sample.share < 1.0:
                if sample.leaves_out(decision):
                    return not (self.sink.required and self.sink.failing)
                left_out = sample.take()
            recorder = self._recorder
            args = recorder.snapshot(request, decision)
            accepted = self.sink.write(
                partial(recorder.line, time.time_ns(), guard, request, decision, latency_ns, args, left_out)
            )
            if left_out and not accepted:
                sample.add(left_out)
            return accepted or not self.sink.required
        except Exception:
            if not self._complained:
                self._complained = True
                log.exception("decision log: a decision could not be recorded; later failures alike are not logged")
            return not self.sink.required

    def close(self) -> None:
        """Write everything that was recorded and release the sink. May be called twice."""
        if self._finalizer.detach():
            _finish(self.sink, self._sample, CLOSE_SECONDS)


class _Sample:
    """Which allowed decisions get a record, and how many have gone without since the last one."""

    __slots__ = ("_left_out", "_lock", "share")

    def __init__(self, share: float) -> None:
        self.share = share
        self._lock = threading.Lock()
        self._left_out = 0

    def leaves_out(self, decision: AuthzDecision) -> bool:
        if decision.allow is not True or is_failure(decision):
            return False
        if random.random() < self.share:  # noqa: S311 - a sample, not a secret
            return False
        self.add(1)
        return True

    def add(self, count: int) -> None:
        with self._lock:
            self._left_out += count

    def take(self) -> int:
        with self._lock:
            count, self._left_out = self._left_out, 0
        return count


def _finish(sink: Sink, sample: _Sample, timeout: float) -> None:
    if left_out := sample.take():
        sink.write(partial(count_line, "left_out", left_out))
    sink.close(timeout)


_live: WeakSet[DecisionLog] = WeakSet()


@atexit.register  # before the sinks close themselves: the module below registered earlier
def _close_all() -> None:
    for one in list(_live):
        one.close()


_open_once = OncePerConfig(DecisionLog.from_config)


def shared_log(config: AuthorizationConfig) -> DecisionLog | None:
    """The one log that serves this configuration object, opened at the first call; None when there is to be none.

    Raises:
        ConfigError: As `DecisionLog.from_config`; a failure is not remembered.
    """
    if config.ledger.sink == "none":
        return None
    return _open_once(config)


def _outside_policies(config: AuthorizationConfig, path: Path) -> None:
    """Refuse a log among the policies: that folder is watched, shipped, and read by more people than a log."""
    if config.source == "<mapping>":  # no file, hence no policy folder: its base is merely the working directory
        return
    place, policies = path.resolve(), config.base_dir.resolve()
    if place.is_relative_to(policies):
        raise _problem(
            config,
            "path",
            f"the decision log {str(place)!r} would lie in the policy folder {str(policies)!r}",
            "set REMIT_STATE_DIR to a folder outside of it",
        )


def _key(config: AuthorizationConfig, path: Path) -> bytes:
    """The key in `path`, made at first use.

    Raises:
        ConfigError: It is open to others, or is no key.
        OSError: It cannot be read or made.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    with os.fdopen(fd, "r+b", buffering=0) as file, locked(fd):
        mode = stat.S_IMODE(os.fstat(fd).st_mode)
        if not os.fstat(fd).st_size:  # new, and nobody else is making it: we hold the lock
            file.write(secrets.token_bytes(KEY_BYTES))
            file.seek(0)
        key = file.read(KEY_BYTES + 1) or b""
    if os.name == "posix" and mode & 0o077:
        raise _problem(
            config, "path", f"the key {str(path)!r} is open to others (mode {mode:04o})", f"run chmod 600 {path}"
        )
    if len(key) != KEY_BYTES:
        advice = "restore it; with a new one, hashes of arguments no longer match older records"
        raise _problem(config, "path", f"the key {str(path)!r} has {len(key)} bytes instead of {KEY_BYTES}", advice)
    return key


def _problem(config: AuthorizationConfig, key: str, message: str, advice: str) -> ConfigError:
    return ConfigError(Problem(config.source, 0, message, advice, "ledger", f"ledger.{key}"))
