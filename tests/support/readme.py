"""The fenced blocks of `README.md`, so that tests run what readers paste."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"


def blocks(language: str) -> list[str]:
    """The text of every block fenced as `language`, in order. The empty language: blocks without one."""
    text = README.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def block(language: str, containing: str) -> str:
    """The one block fenced as `language` that holds `containing`.

    Raises:
        ValueError: There is none, or more than one.
    """
    (found,) = [text for text in blocks(language) if containing in text]
    return found
