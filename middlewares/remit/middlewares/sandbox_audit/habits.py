"""Programs that are a matter of concern by themselves, and those that take a command as one of their options."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from remit.middlewares.sandbox_audit import effects, paths
from remit.middlewares.sandbox_audit.taint import HOLE, INTERACTIVE, Text
from remit.middlewares.sandbox_audit.wrappers import Inner

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
    "iptables": None, "ip6tables": None, "nft": None, "ufw": None, "useradd": None, "userdel": None, "usermod": None, "adduser": None,
    "deluser": None, "groupadd": None, "passwd": None, "chpasswd": None, "visudo": None, "vipw": None, "insmod": None, "modprobe": None,
    "rmmod": None, "umount": None, "swapoff": None, "swapon": None, "losetup": None, "setcap": None, "hwclock": None,
    "sysctl": frozenset({"-w", "-p", "--system", "--write"}),
    "systemctl": frozenset(["stop", "start", "restart", "disable", "enable", "mask", "kill", "isolate", "set-default", "edit", "daemon-reload"]),
    "service": frozenset({"stop", "restart"}),
    "launchctl": frozenset(["load", "unload", "bootstrap", "bootout", "submit"]),
}  # fmt: skip
_SECRET_NAME: Final = re.compile(r"key|token|secret|passw|credential|auth|private|session", re.IGNORECASE)
_OPEN_MODE: Final = re.compile(
    r"[0-7]{0,2}?[0-7][0-7][2367]|(?:[ugo]*[ao][ugo]*)?[+=][rxXst]*w[rwxXst]*|[ugoa]*o[ugoa]*[+=][rxXst]*w[rwxXst]*"
)
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
    "pacman": _pacman, "chmod": _mode, "mkdir": _mode, "install": _mode, "nc": _netcat, "ncat": _netcat, "netcat": _netcat,
    "nc.traditional": _netcat, "nc.openbsd": _netcat, "socat": _netcat, "kill": _kill, "init": _init, "printenv": _printenv,
    "yes": _endless, "cat": _endless, "dd": _endless, "shred": _wipe, "wipefs": _wipe, "blkdiscard": _wipe, "fdisk": _wipe,
    "sfdisk": _wipe, "parted": _wipe, "sgdisk": _wipe, "hdparm": _wipe, "badblocks": _wipe, "crontab": _cron, "at": _cron, "batch": _cron,
    "mount": _mount, "deno": _deno,
}  # fmt: skip


def inner(name: str, argv: tuple[Text, ...]) -> Iterator[Inner]:
    """Commands that the program takes as options or operands and runs."""
    finder = _INNER.get(name)
    if finder is not None:
        yield from finder(argv)


def _git(argv: tuple[Text, ...]) -> Iterator[Inner]:
    for setting in effects.valued(argv, "-c --config --config-env"):
        key, _, value = setting.text.partition("=")
        yield from _git_setting(key, Text(value, setting.taint))
    plain = [word for word in effects.operands(argv, "-C -c --git-dir --work-tree")]
    verb = plain[0].text if plain else ""
    if verb == "config" and len(plain) > 2:
        yield from _git_setting(plain[-2].text, plain[-1])
    elif verb in ("submodule", "bisect") and len(plain) > 2 and plain[1].text in ("foreach", "run"):
        at = next(n for n, word in enumerate(argv) if word.text == plain[1].text) + 1
        while at < len(argv) and argv[at].text.startswith("-"):
            at += 1
        if at + 1 == len(argv):
            yield Inner("text", argv[at:])
        else:
            yield Inner("command", argv[at:])
    elif verb == "rebase":
        for word in effects.valued(argv, "-x --exec"):
            yield Inner("text", (word,))
    elif verb == "filter-branch":
        for word in effects.valued(
            argv, "--tree-filter --index-filter --msg-filter --env-filter --commit-filter --parent-filter"
        ):
            yield Inner("text", (word,))
    elif verb in ("clone", "fetch", "pull", "ls-remote", "push"):
        for word in effects.valued(argv, "-u --upload-pack --receive-pack --exec"):
            if verb != "push" or not word.text.isalnum():
                yield Inner("text", (word,))
        for word in plain[1:]:
            if word.text.startswith("ext::"):
                yield Inner("text", (Text(word.text[5:], word.taint),))
    elif verb in ("difftool", "mergetool"):
        for word in effects.valued(argv, "-x --extcmd"):
            yield Inner("text", (word,))


def _git_setting(key: str, value: Text) -> Iterator[Inner]:
    name = key.lower()
    if name.startswith("alias."):
        if value.text.startswith("!"):
            yield Inner("text", (Text(value.text[1:], value.taint),))
    elif name.endswith(
        (
            "command",
            "pager",
            "editor",
            "askpass",
            "fsmonitor",
            ".cmd",
            ".textconv",
            ".helper",
            ".program",
            ".smudge",
            ".clean",
        )
    ):
        yield Inner("text", (Text(value.text.lstrip("!"), value.taint),))


def _find(argv: tuple[Text, ...]) -> Iterator[Inner]:
    at = 1
    while at < len(argv) and argv[at].text in ("-H", "-L", "-P"):
        at += 1
    roots: list[Text] = []
    while at < len(argv) and not argv[at].text.startswith(("-", "(", "!")):
        roots.append(argv[at])
        at += 1
    filtered = _is_filtered(argv[at:])
    deletes = any(word.text == "-delete" for word in argv[at:])
    if deletes and not filtered:
        yield Inner("command", (Text("rm"), Text("-rf"), *roots))
    while at < len(argv):
        if argv[at].text in ("-exec", "-execdir", "-ok", "-okdir"):
            end = at + 1
            while end < len(argv) and argv[end].text not in (";", "+"):
                end += 1
            for root in roots[:3] or [Text(".")]:
                found = Text(f"{root.text.rstrip('/') or ''}/{HOLE}" if filtered else root.text, root.taint)
                yield Inner("command", tuple(_put(word, found) for word in argv[at + 1 : end]))
            at = end
        elif argv[at].text in ("-fprint", "-fprintf", "-fls", "-fprint0"):
            yield Inner("command", (Text("tee"), *argv[at + 1 : at + 2]))
        at += 1


def _is_filtered(tests: tuple[Text, ...]) -> bool:
    """Whether only files of a certain name are meant."""
    for n, word in enumerate(tests[:-1]):
        if word.text in ("-name", "-iname", "-path", "-ipath", "-wholename", "-regex") and tests[n - 1].text not in (
            "!",
            "-not",
        ):
            return sum(letter.isalnum() for letter in tests[n + 1].text) >= 2
    return False


def _put(word: Text, found: Text) -> Text:
    return Text(word.text.replace("{}", found.text), word.taint | found.taint) if "{}" in word.text else word


def _option(*names: str) -> Callable[[tuple[Text, ...]], Iterator[Inner]]:
    """The values of these options are commands."""

    def finder(argv: tuple[Text, ...]) -> Iterator[Inner]:
        for value in effects.valued(argv, " ".join(names)):
            yield Inner("text", (value,))

    return finder


def _tar(argv: tuple[Text, ...]) -> Iterator[Inner]:
    yield from _option(
        "--to-command", "-I", "--use-compress-program", "--rsh-command", "-F", "--info-script", "--new-volume-script"
    )(argv)
    for action in effects.valued(argv, "--checkpoint-action"):
        if action.text.startswith("exec="):
            yield Inner("text", (Text(action.text[5:], action.taint),))


def _editor(argv: tuple[Text, ...]) -> Iterator[Inner]:
    for word in [*effects.valued(argv, "-c --cmd"), *(word for word in argv[1:] if word.text.startswith("+"))]:
        command = word.text.lstrip("+:")
        if command.startswith("!"):
            yield Inner("text", (Text(command[1:], word.taint),))
        elif command.startswith(("sil !", "silent !")):
            yield Inner("text", (Text(command.partition("!")[2], word.taint),))


_SED_RUNS: Final = re.compile(r"(?:^|[;\n{]|\d|\$|/)\s*e\s+([^\n]+)")


def _sed(argv: tuple[Text, ...]) -> Iterator[Inner]:
    scripts = effects.valued(argv, "-e --expression") or effects.operands(argv)[:1]
    for script in scripts:
        for found in _SED_RUNS.finditer(script.text):
            yield Inner("text", (Text(found.group(1), script.taint),))


def _make(argv: tuple[Text, ...]) -> Iterator[Inner]:
    for word in argv[1:]:
        key, _, value = word.text.partition("=")
        if key in ("SHELL", "CC", "CXX", "LD") and value:
            yield Inner("text", (Text(value, word.taint),))
        elif word.text.startswith("--eval="):
            yield from (
                Inner("text", (Text(found, word.taint),)) for found in re.findall(r"\$\(shell ([^)]*)\)", word.text)
            )


_INNER: Final[dict[str, Callable[[tuple[Text, ...]], Iterator[Inner]]]] = {
    "git": _git, "find": _find, "gfind": _find, "tar": _tar, "gtar": _tar, "bsdtar": _tar, "vim": _editor, "vi": _editor, "nvim": _editor,
    "ex": _editor, "sed": _sed, "gsed": _sed, "make": _make, "gmake": _make, "rsync": _option("-e", "--rsh", "--rsync-path"),
    "scp": _option("-S"), "sftp": _option("-S"), "man": _option("-P", "--pager"), "split": _option("--filter"),
    "sort": _option("--compress-program"), "fd": _option("-x", "-X", "--exec", "--exec-batch"), "rg": _option("--pre"),
    "zip": _option("-TT", "--unzip-command"), "tcpdump": _option("-z"), "mysql": _option("-e"), "ssh-keygen": _option("-D"),
    "inotifywait": _option("--exec"), "fzf": _option("--preview", "--bind"), "nmap": _option("--script"), "wget": _option("--use-askpass"),
    "nodemon": _option("-x", "--exec"), "watchexec": _option("--shell"), "concurrently": _option("-x"), "logger": _option("--exec"),
}  # fmt: skip
