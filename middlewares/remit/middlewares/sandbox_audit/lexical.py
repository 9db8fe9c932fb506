"""A look at the bare words of a text that the grammar could not read: what stands where a command might begin."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_BREAKS: Final = re.compile(r"[;&|\n()`]|\$\(|<\(|(?:^|(?<=\s))(?:\{|then|do|else|elif|if|while|until|!|time)(?=\s)")
_QUOTES: Final = re.compile(r"[\"'\\]")
_RISKY: Final = re.compile(
    r"(?<![\w.-])(?:curl|wget|nc|ncat|netcat|socat|base64|eval|(?:ba|z|da|k)?sh|sudo|su|dd|mkfs\S*|shred|rm|chmod|python[\d.]*|perl|ruby"
    r"|node|php|xargs|nohup|find)(?![\w.-])|/dev/(?:tcp|udp|sd|nvme)|/etc/|/proc/|authorized_keys|\.bashrc|LD_PRELOAD"
)
_MOST: Final = 200
"""Stretches that are looked at."""


def is_risky(text: str) -> bool:
    """Whether words are in `text` that are dangerous if they stand where the reading is wrong."""
    return _RISKY.search(_QUOTES.sub("", text)) is not None


def commands(text: str) -> Iterator[list[str]]:
    """What may be commands in `text`, as lists of words without their quotes."""
    plain = _QUOTES.sub("", text.replace("\\\n", ""))
    for n, stretch in enumerate(_BREAKS.split(plain)):
        if n > _MOST:
            return
        found = stretch.replace("${IFS}", " ").replace("$IFS", " ").split()
        if found:
            yield found[:_MOST]
