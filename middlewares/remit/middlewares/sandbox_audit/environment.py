"""Variables that change what other programs do."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from remit.middlewares.sandbox_audit.taint import Text
from remit.middlewares.sandbox_audit.verdicts import Severity

_PRELOADS: Final = frozenset({"LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "BASH_ENV"})
_LIBRARIES: Final = frozenset({"LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH", "GCONV_PATH"})
_COMMANDS: Final = frozenset(
    [
        "PROMPT_COMMAND",
        "GIT_SSH_COMMAND",
        "GIT_SSH",
        "GIT_EDITOR",
        "GIT_PAGER",
        "GIT_SEQUENCE_EDITOR",
        "GIT_EXTERNAL_DIFF",
        "GIT_ASKPASS",
        "GIT_PROXY_COMMAND",
        "SSH_ASKPASS",
        "SUDO_ASKPASS",
        "PAGER",
        "MANPAGER",
        "EDITOR",
        "VISUAL",
        "BROWSER",
        "LESSOPEN",
        "LESSCLOSE",
        "RSYNC_RSH",
        "CVS_RSH",
        "FCEDIT",
        "PERL5DB",
        "PS0",
        "PS1",
        "PS4",
    ]
)
"""Variables whose value is a command of the shell."""
_OPTIONS: Final = {
    "NODE_OPTIONS": re.compile(r"(?:^|\s)(?:-r|--require|--import|--loader|--experimental-loader)\b"),
    "PERL5OPT": re.compile(r"-[mMdI]"),
    "RUBYOPT": re.compile(r"-r"),
    "PYTHONSTARTUP": re.compile(r"."),
    "JAVA_TOOL_OPTIONS": re.compile(r"-javaagent|-agentpath"),
}


class Meaning(NamedTuple):
    """What an assignment does beside setting a variable."""

    rule: str | None = None
    severity: Severity | None = None
    command: bool = False
    """Its value is the text of a command."""


def meaning(name: str, value: Text) -> Meaning | None:
    """What it means that `name` gets `value`; None for most names."""
    if name in _PRELOADS:
        return Meaning("preload") if value.text else None
    if name in _LIBRARIES:
        return Meaning("library-path")
    if name == "PATH":
        return Meaning("path-override")
    if name in _COMMANDS or name.startswith("GIT_CONFIG_VALUE_"):
        return Meaning(command=True)
    risky = _OPTIONS.get(name)
    if risky is not None and risky.search(value.text):
        return Meaning("preload", "warn")
    return None
