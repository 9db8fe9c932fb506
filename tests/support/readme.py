"""The fenced blocks of `README.md`, so that tests run what readers paste."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
FENCE = "```"


def blocks(language: str) -> list[str]:
    """The text of every block fenced as `language`, in order; with the empty name, of those fenced as nothing."""
    found: list[str] = []
    inside: list[str] | None = None
    fenced_as = ""
    for line in README.read_text(encoding="utf-8").splitlines(keepends=True):
        if not line.startswith(FENCE):
            if inside is not None:
                inside.append(line)
        elif inside is None:
            inside, fenced_as = [], line.strip().removeprefix(FENCE)
        else:
            if fenced_as == language:
                found.append("".join(inside))
            inside = None
    return found


def block(language: str, containing: str) -> str:
    """The one block fenced as `language` that holds `containing`.

    Raises:
        ValueError: There is none, or more than one.
    """
    (found,) = [text for text in blocks(language) if containing in text]
    return found
