"""Reading an operator's text file strictly: what cannot be seen on a screen must not change a policy."""

from __future__ import annotations

import re
import stat
from pathlib import Path

from remit.providers.casbin.files.findings import Findings

_BOM = b"\xef\xbb\xbf"
# Control characters but tab and line feed; every other character that some editor shows as a line end, since text
# after it looks like a row and is none; the characters that reorder what is displayed.
_FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_VISIBLE_BYTES = bytes({*range(256)} - {*range(32), 127} | {9, 10})


def read_text(path: Path, name: str, findings: Findings) -> str | None:
    r"""The text of `path` with ``\n`` as the only line end, or None after reporting why it cannot be read.

    Args:
        name: What the configuration calls the file; problems use it.
    """
    data = _read_bytes(path, name, findings)
    if data is None:
        return None
    try:
        text = data.removeprefix(_BOM).decode("utf-8")
    except UnicodeDecodeError as exc:
        utf16 = data[:2] in (b"\xff\xfe", b"\xfe\xff")
        findings.error(
            "encoding",
            name,
            1 if utf16 else exc.object.count(b"\n", 0, exc.start) + 1,
            "is UTF-16" if utf16 else f"is not valid UTF-8 (byte 0x{exc.object[exc.start]:02X})",
            "save the file as UTF-8",
        )
        return None
    if text.isascii() and not data.translate(None, _VISIBLE_BYTES):
        return text
    text = text.replace("\r\n", "\n")
    if _FORBIDDEN.search(text) is None:
        return text
    for number, line in enumerate(text.split("\n"), 1):
        if (bad := _FORBIDDEN.search(line)) is not None:
            findings.error(
                "invisible-character",
                name,
                number,
                f"holds the character U+{ord(bad.group()):04X}, which no reader sees",
                "delete it, or type the line again",
            )
    return None


def _read_bytes(path: Path, name: str, findings: Findings) -> bytes | None:
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            findings.error("not-a-file", name, 0, "is a directory", "name the file inside it")
            return None
        if not stat.S_ISREG(mode):
            findings.error("not-a-file", name, 0, "is not a regular file", "name a text file")
            return None
        return path.read_bytes()
    except FileNotFoundError:
        findings.error("missing-file", name, 0, "does not exist", "create it, or correct the path in the configuration")
    except PermissionError:
        findings.error("unreadable-file", name, 0, "may not be read by this process", "correct its permissions")
    except (OSError, ValueError) as exc:  # ValueError: a zero byte in the path
        reason = getattr(exc, "strerror", None) or str(exc)
        findings.error("unreadable-file", name, 0, f"cannot be read ({reason})", "correct the path or the file system")
    return None
