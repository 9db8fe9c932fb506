"""Programs that are a matter of concern by themselves."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from remit.middlewares.sandbox_audit import effects, paths
from remit.middlewares.sandbox_audit.taint import INTERACTIVE, Text

if TYPE_CHECKING:
    from remit.middlewares.sandbox_audit.walk import Feed, Walk

_INSTALLS: Final[dict[str, frozenset[str]]] = {
    "pip": frozenset({"install", "download"}),
    "pipx": frozenset({"install", "inject", "upgrade"}),
    "uv": frozenset({"add", "install"}),
    "poetry": frozenset({"add"}),
    "pdm": frozenset({"add"}),
    "conda": frozenset({"install", "create"}),
    "mamba": frozenset({"install", "create"}),
    "micromamba": frozenset({"install", "create"}),
    "easy_install": frozenset({""}),
    "apt": frozenset({"install", "reinstall", "upgrade", "full-upgrade", "dist-upgrade", "build-dep"}),
    "apt-get": frozenset({"install", "reinstall", "upgrade", "dist-upgrade", "build-dep"}),
    "aptitude": frozenset({"install", "upgrade"}),
    "dpkg": frozenset({"-i", "--install"}),
    "rpm": frozenset({"-i", "-U", "-ivh", "-Uvh", "--install", "--upgrade"}),
    "yum": frozenset({"install", "localinstall", "update", "upgrade"}),
    "dnf": frozenset({"install", "update", "upgrade"}),
    "microdnf": frozenset({"install"}),
    "zypper": frozenset({"install", "in", "update", "up"}),
    "apk": frozenset({"add", "upgrade"}),
    "brew": frozenset({"install", "upgrade", "reinstall", "tap"}),
    "port": frozenset({"install"}),
    "snap": frozenset({"install"}),
    "flatpak": frozenset({"install"}),
    "gem": frozenset({"install"}),
    "cargo": frozenset({"install"}),
    "go": frozenset({"install", "get"}),
    "yarn": frozenset({"add", "global"}),
    "pnpm": frozenset({"add"}),
    "bun": frozenset({"add"}),
    "composer": frozenset({"require", "global"}),
    "luarocks": frozenset({"install"}),
    "cpan": frozenset({"install"}),
    "cpanm": frozenset({""}),
    "nix-env": frozenset({"-i", "-iA", "--install"}),
    "choco": frozenset({"install"}),
    "winget": frozenset({"install"}),
}
_WITH_NAME: Final = frozenset({"install", "i", "add", "update", "upgrade"})
"""Of npm and its like: with the name of a package they fetch it; alone they fetch what the project has written down."""
_PIP: Final = re.compile(r"pip[\d.]*")
_STOPS: Final = frozenset(["shutdown", "reboot", "halt", "poweroff", "telinit"])
_CONTROLS: Final[dict[str, frozenset[str] | None]] = {
    "iptables": None,
    "ip6tables": None,
    "nft": None,
    "ufw": None,
    "useradd": None,
    "userdel": None,
    "usermod": None,
    "adduser": None,
    "deluser": None,
    "groupadd": None,
    "passwd": None,
    "chpasswd": None,
    "visudo": None,
    "vipw": None,
    "insmod": None,
    "modprobe": None,
    "rmmod": None,
    "umount": None,
    "swapoff": None,
    "swapon": None,
    "losetup": None,
    "setcap": None,
    "hwclock": None,
    "sysctl": frozenset({"-w", "-p", "--system", "--write"}),
    "systemctl": frozenset(
        [
            "stop",
            "start",
            "restart",
            "disable",
            "enable",
            "mask",
            "kill",
            "isolate",
            "set-default",
            "edit",
            "daemon-reload",
        ]
    ),
    "service": frozenset({"stop", "restart"}),
    "launchctl": frozenset(["load", "unload", "bootstrap", "bootout", "submit"]),
}
_SECRET_NAME: Final = re.compile(r"key|token|secret|passw|credential|auth|private|session", re.IGNORECASE)
_OPEN_MODE: Final = re.compile(
    r"[0-7]{0,2}?[0-7][0-7][2367]|(?:[ugo]*[ao][ugo]*)?[+=][rxXst]*w[rwxXst]*|[ugoa]*o[ugoa]*[+=][rxXst]*w[rwxXst]*"
)
_LONGEST_MODE: Final = 40
_MAKES_FS: Final = re.compile(r"mkfs(?:\..+)?|mke2fs|mkswap")
_ENDLESS_FILE: Final = frozenset({"/dev/zero", "/dev/urandom", "/dev/random", "/dev/full"})


def check(walk: Walk, name: str, argv: tuple[Text, ...], feed: Feed | None) -> None:
    """Report what is a matter of concern about the program itself."""
    checker = _CHECKS.get(name)
    if checker is not None:
        checker(walk, name, argv)
        if checker is _netcat and feed is not None and feed.text.taint & INTERACTIVE:
            walk.report("reverse-shell")
    elif name in _INSTALLS or name == "npm" or (name.startswith("pip") and _PIP.fullmatch(name)):
        _install(walk, name, argv)
    elif name in _STOPS:
        walk.report("power-off")
    elif name in _CONTROLS:
        wanted = _CONTROLS[name]
        if wanted is None or any(word.text in wanted for word in argv[1:]):
            walk.report("system-control")
        if name == "systemctl" and any(
            word.text in ("poweroff", "reboot", "halt", "kexec", "emergency") for word in argv[1:3]
        ):
            walk.report("power-off")
    elif name.startswith("mk") and _MAKES_FS.fullmatch(name):
        walk.report("disk-overwrite")


def _install(walk: Walk, name: str, argv: tuple[Text, ...]) -> None:
    given = [word.text for word in argv[1:]]
    plain = [text for text in given if not text.startswith("-")]
    if name in ("npm", "pnpm", "bun") and plain[:1] and plain[0] in _WITH_NAME and len(plain) > 1:
        walk.report("package-install")
        return
    wanted = _INSTALLS.get("pip" if _PIP.fullmatch(name) else name, frozenset())
    if "" in wanted and plain:
        walk.report("package-install")
    elif name == "uv":
        if plain[:1] == ["add"] or plain[:2] == ["pip", "install"] or plain[:2] == ["tool", "install"]:
            walk.report("package-install")
    elif name == "pacman":
        pass
    elif any(text in wanted for text in (given if any(one.startswith("-") for one in wanted) else plain[:2])):
        if name == "go" and plain[:1] == ["install"] and not any("@" in text for text in plain):
            return  # it builds what is here
        walk.report("package-install")


def _pacman(walk: Walk, name: str, argv: tuple[Text, ...]) -> None:
    if any(word.text.startswith("-S") and not word.text.startswith(("-Ss", "-Si", "-Sl")) for word in argv[1:]):
        walk.report("package-install")


def _mode(walk: Walk, name: str, argv: tuple[Text, ...]) -> None:
    modes = (
        effects.valued(argv, "-m --mode")
        if name != "chmod"
        else [word for word in argv[1:] if not word.text.startswith("--")][:3]
    )
    for mode in modes:
        if len(mode.text) > _LONGEST_MODE:
            continue
        if _OPEN_MODE.fullmatch(mode.text):
            walk.report("world-writable")
            return
        if any(_OPEN_MODE.fullmatch(part) for part in mode.text.split(",")) and "," in mode.text:
            walk.report("world-writable")
            return


def _netcat(walk: Walk, name: str, argv: tuple[Text, ...]) -> None:
    for word in argv[1:]:
        text = word.text
        if (
            text.partition("=")[0] in ("--exec", "--sh-exec", "--lua-exec")
            or (re.fullmatch(r"-[a-zA-Z0-9]*[ec]", text) and name != "socat")
            or (name == "socat" and re.search(r"(?:^|,|:)(?:EXEC|SYSTEM|SHELL)\b", text, re.IGNORECASE))
        ):
            walk.report("reverse-shell")


def _kill(walk: Walk, name: str, argv: tuple[Text, ...]) -> None:
    targets = [word.text for word in argv[1:]]
    if "-1" in targets[1:] or (targets[:1] == ["-1"] and len(targets) == 1) or targets[-1:] == ["1"]:
        walk.report("power-off")


def _init(walk: Walk, name: str, argv: tuple[Text, ...]) -> None:
    if any(word.text in ("0", "6") for word in argv[1:2]):
        walk.report("power-off")


def _printenv(walk: Walk, name: str, argv: tuple[Text, ...]) -> None:
    names = effects.operands(argv)
    if not names or any(_SECRET_NAME.search(word.text) for word in names):
        walk.report("environment-dump")


def _endless(walk: Walk, name: str, argv: tuple[Text, ...]) -> None:
    if name == "dd":
        keys = {word.text.partition("=")[0]: word.text.partition("=")[2] for word in argv[1:]}
        endless = keys.get("if") in _ENDLESS_FILE and "count" not in keys and keys.get("of") not in (None, "/dev/null")
    elif name == "cat":
        endless = any(word.text in _ENDLESS_FILE for word in argv[1:])
    else:
        endless = walk.redirected
    if endless:
        walk.report("endless-output")


def _wipe(walk: Walk, name: str, argv: tuple[Text, ...]) -> None:
    for word in argv[1:]:
        path = paths.resolved(word.text, walk.state.cwd)
        if path.startswith("/dev/") and path not in ("/dev/null", "/dev/zero"):
            walk.report("disk-overwrite")


def _cron(walk: Walk, name: str, argv: tuple[Text, ...]) -> None:
    if (name == "crontab" and not effects.flagged(argv, "l")) or (
        name in ("at", "batch") and not effects.flagged(argv, "lcrdV") and (len(argv) > 1 or name == "batch")
    ):
        walk.report("scheduled-job")


def _mount(walk: Walk, name: str, argv: tuple[Text, ...]) -> None:
    if len(effects.operands(argv, "-t -o")) > 0:
        walk.report("system-control")


def _deno(walk: Walk, name: str, argv: tuple[Text, ...]) -> None:
    if any(word.text == "run" for word in argv[1:2]) and any(
        word.text.startswith(("http:", "https:")) for word in argv[2:]
    ):
        walk.report("fetched-code")


_CHECKS: Final[dict[str, Callable[[Walk, str, tuple[Text, ...]], None]]] = {
    "pacman": _pacman,
    "chmod": _mode,
    "mkdir": _mode,
    "install": _mode,
    "nc": _netcat,
    "ncat": _netcat,
    "netcat": _netcat,
    "nc.traditional": _netcat,
    "nc.openbsd": _netcat,
    "socat": _netcat,
    "kill": _kill,
    "init": _init,
    "printenv": _printenv,
    "yes": _endless,
    "cat": _endless,
    "dd": _endless,
    "shred": _wipe,
    "wipefs": _wipe,
    "blkdiscard": _wipe,
    "fdisk": _wipe,
    "sfdisk": _wipe,
    "parted": _wipe,
    "sgdisk": _wipe,
    "hdparm": _wipe,
    "badblocks": _wipe,
    "crontab": _cron,
    "at": _cron,
    "batch": _cron,
    "mount": _mount,
    "deno": _deno,
}
