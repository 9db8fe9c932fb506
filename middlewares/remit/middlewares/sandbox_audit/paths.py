"""Paths that matter, in whatever way they are written."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Final

from remit.middlewares.sandbox_audit.taint import HOLE

_SLASHES: Final = re.compile(r"/{2,}")
_ROOT_DOOR: Final = re.compile(
    r"^/proc/(?:self|thread-self|\d+)(?:/task/\d+)?/root(?=/|$)|^/private(?=/(?:etc|var|tmp)\b)"
)
_GLOB: Final = re.compile(r"[*?\[]|\{.*,")
_EVERYTHING: Final = re.compile(r"\.?(?:[*?]|\[[^\]]*\]|\*\.\*)+")
_HOME: Final = re.compile(r"^(?:~[^/]*|/root|/home/[^/]+|/Users/[^/]+)(?=/|$)")

_TOP: Final = frozenset(
    [
        "bin",
        "boot",
        "dev",
        "etc",
        "home",
        "lib",
        "lib32",
        "lib64",
        "libx32",
        "mnt",
        "opt",
        "proc",
        "root",
        "run",
        "sbin",
        "srv",
        "sys",
        "usr",
        "var",
        "Applications",
        "Library",
        "System",
        "Users",
        "Volumes",
    ]
)
"""What stands right below the root. Temporary folders are left out: they are there to be emptied."""
_USR: Final = frozenset(["bin", "sbin", "lib", "lib32", "lib64", "libexec", "local", "share", "include"])
_SYSTEM: Final = re.compile(
    r"/(?:etc|bin|sbin|lib|lib32|lib64|libx32|boot|sys|proc/sys|usr/(?:bin|sbin|lib|lib32|lib64|libexec|local/s?bin|local/lib)"
    r"|var/spool/cron|Library/Launch\w+|System)(?:/|$)|/proc/sysrq-trigger$"
)
_BLOCK_DEVICE: Final = re.compile(
    r"/dev/(?:[hsv]d[a-z]+\d*|xvd[a-z]+\d*|nvme\d+(?:n\d+)?(?:p\d+)?|mmcblk\d+(?:p\d+)?|r?disk\d+(?:s\d+)?|md\d+|dm-\d+|sr\d+"
    r"|disk/.*|mapper/.*|mem|kmem|port)$"
)
_SECRETS: Final = (
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/master.passwd",
    "/etc/security/opasswd",
    "/run/secrets/kubernetes.io/serviceaccount/token",
    "/var/run/secrets/kubernetes.io/serviceaccount/token",
    "/proc/1/environ",
)
_SECRET: Final = re.compile(
    r"/proc/[^/]+/(?:task/[^/]+/)?(?:environ|mem|maps)$|/etc/(?:sudoers\.d|ssh/ssh_host_[^/]*key$)|/etc/shadow[^/]*$"
)
_CREDENTIALS: Final = re.compile(
    r"/\.ssh/(?:id_[^/.]*|identity)$|/\.aws/credentials$|/\.netrc$|/\.pgpass$|/\.kube/config$|/\.docker/config\.json$"
    r"|/\.git-credentials$|/\.gnupg/.|/\.config/gcloud/.|/\.azure/.|/\.npmrc$|/\.pypirc$|/\.bash_history$|/\.zsh_history$"
)
_STARTUP: Final = re.compile(
    r"/(?:\.(?:bashrc|profile|zshrc|bash_profile|bash_login|bash_logout|zprofile|zlogin|zlogout|zshenv|kshrc|cshrc|tcshrc"
    r"|xinitrc|xprofile|xsession|inputrc|pam_environment|ssh/(?:authorized_keys2?|rc|config|environment))"
    r"|\.config/(?:fish/.*|autostart/.*|systemd/user/.*|environment\.d/.*))$"
)
_NETWORK: Final = re.compile(r"/dev/(?:tcp|udp)(?:/|$)")


def resolved(text: str, cwd: str | None) -> str:
    """`text` as a path without detours: from the root, from ``~``, or from somewhere that is not known."""
    path = text.removeprefix("file://")
    if cwd and not path.startswith(("/", "~", HOLE)):
        path = f"{cwd}/{path}"
    if "//" in path:
        path = _SLASHES.sub("/", path)
    if "/." in path or path.startswith("."):
        parts: list[str] = []
        for part in path.split("/"):
            if part == "..":
                if parts and parts[-1] not in ("..", "", "~") and not parts[-1].startswith(("~", HOLE)):
                    parts.pop()
                elif parts != [""]:
                    parts.append(part)
            elif part != ".":
                parts.append(part)
        path = "/".join(parts) or ("/" if path.startswith("/") else ".")
    found = _ROOT_DOOR.match(path) if path.startswith("/pr") else None
    return (path[found.end() :] or "/") if found else path


def _matches(path: str, wanted: str) -> bool:
    if path == wanted or _GLOB.search(path) is None:
        return path == wanted
    parts, names = path.split("/"), wanted.split("/")
    return len(parts) == len(names) and all(map(fnmatchcase, names, parts))


def is_vital(path: str) -> bool:
    """Whether to remove the tree at `path` is to remove a system, or somebody's home."""
    path = path.replace(HOLE, "\x01")
    parts = [part for part in path.split("/") if part]
    while parts and _EVERYTHING.fullmatch(parts[-1]):
        parts.pop()  # all of a folder is the folder
    if path.startswith("~"):
        return len(parts) <= 1
    if not path.startswith("/"):
        return False
    if not parts:
        return True
    if "\x01" in parts[0]:
        return False
    top = _alike(parts[0], _TOP)
    if len(parts) == 1:
        return top
    if len(parts) == 2:
        return (parts[0] == "usr" and _alike(parts[1], _USR)) or (
            parts[0] in ("home", "Users") and "\x01" not in parts[1]
        )
    return False


def _alike(part: str, names: frozenset[str]) -> bool:
    return part in names or (_GLOB.search(part) is not None and any(fnmatchcase(name, part) for name in names))


def may_be_root(path: str) -> bool:
    """Whether `path` is the root if what is not known of it is empty."""
    return path.startswith("/") and HOLE in path and not path.replace(HOLE, "").strip("/*.")


def is_system(path: str) -> bool:
    """Whether what is written at `path` changes the system."""
    return path.startswith("/") and _SYSTEM.match(path) is not None


def is_disk(path: str) -> bool:
    """Whether `path` is a disk or the memory as a device."""
    return path.startswith("/dev/") and _BLOCK_DEVICE.match(path) is not None


def is_secret(path: str) -> bool:
    """Whether `path` holds the secrets of the system or of a process."""
    if not path.startswith(("/", HOLE)) or (
        "/etc" not in path
        and "proc" not in path
        and not _GLOB.search(path)
        and HOLE not in path
        and "secrets" not in path
    ):
        return False
    for way in {path.replace(HOLE, ""), path.replace(HOLE, "1")}:
        if _SECRET.match(way) is not None or any(_matches(way, secret) for secret in _SECRETS):
            return True
    return False


def is_credential(path: str) -> bool:
    """Whether `path` holds somebody's keys or passwords."""
    found = _HOME.match(path)
    return found is not None and _CREDENTIALS.match(path, found.end()) is not None


def is_startup(path: str) -> bool:
    """Whether what is written at `path` runs at the next login."""
    found = _HOME.match(path)
    return found is not None and _STARTUP.match(path, found.end()) is not None


def is_network(path: str) -> bool:
    """Whether bash takes `path` for a connection."""
    return _NETWORK.match(path) is not None
