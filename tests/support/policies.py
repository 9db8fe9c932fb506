"""Real policy files for tests, and enforcers over them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from remit.authz import Enforcer

Row = tuple[str, ...]


def allow(role: str, tool: str, cond: str = "") -> Row:
    """`role` may call `tool`."""
    return ("p", f"role:{role}", "tool", tool, "call", "allow", cond)


def deny(role: str, tool: str, cond: str = "") -> Row:
    """`role` must not call `tool`."""
    return ("p", f"role:{role}", "tool", tool, "call", "deny", cond)


def ask(role: str, tool: str, cond: str = "") -> Row:
    """`role` may call `tool` once a person has approved the call."""
    return ("p", f"role:{role}", "tool", tool, "call", "ask", cond)


def write_policy(folder: Path, rows: Iterable[Row], name: str = "policy.csv") -> Path:
    """Write `rows`, one per line, replacing the file as an editor does."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    path = folder / name
    fresh = folder / f".{name}.new"
    fresh.write_text(text.getvalue(), encoding="utf-8")
    fresh.replace(path)
    return path


class Policy:
    """A policy file on disk, the provider that reads it, and the enforcer over both."""

    def __init__(self, folder: Path, rows: Iterable[Row], *, default_role: str = "guest", **options: Any) -> None:
        from remit.providers.casbin import CasbinAuthorizationProvider

        self.folder = folder
        write_policy(folder, rows)
        self.provider = CasbinAuthorizationProvider(policies=["policy.csv"], base_dir=folder)
        self.enforcer = Enforcer(self.provider, default_role=default_role, **options)

    def rewrite(self, *rows: Row) -> None:
        """Replace the policy and take it into force at once."""
        write_policy(self.folder, rows)
        self.provider.reload()
