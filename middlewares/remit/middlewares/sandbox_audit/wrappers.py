"""Programs that run their arguments: which argument of which program is again a command, or the text of one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from remit.middlewares.sandbox_audit.taint import HOLE, Text, joined

_READ_WORDS: Final = 64
"""Words of its input that ``xargs`` is followed with."""
Form = Literal["command", "text"]


class Wrapper(NamedTuple):
    """How the arguments of one program are to be read."""

    values: frozenset[str] = frozenset()
    """Options that take the next argument as their value."""
    skip: int = 0
    """Operands in front of the command."""
    assigns: bool = False
    """Whether ``NAME=value`` may stand in front of the command."""
    text: bool = False
    """The operands are joined to the text of a command, as ``eval`` does it."""
    codes: frozenset[str] = frozenset()
    """Options whose value is the text of a command."""
    rule: str | None = None
    """The rule that the wrapper itself matches."""
    remote: bool = False
    """The command runs on another machine or in a container."""
    subcommands: frozenset[str] | None = None
    """It is a wrapper with one of these as the first operand only."""
    dashes: bool = False
    """The command begins behind ``--``, or there is none."""


def _wrapper(
    values: str = "",
    *,
    skip: int = 0,
    assigns: bool = False,
    text: bool = False,
    codes: str = "",
    rule: str | None = None,
    remote: bool = False,
    subcommands: str | None = None,
    dashes: bool = False,
) -> Wrapper:
    of = None if subcommands is None else frozenset(subcommands.split())
    return Wrapper(frozenset(values.split()), skip, assigns, text, frozenset(codes.split()), rule, remote, of, dashes)


_SUDO: Final = _wrapper(
    "-u -g -U -C -D -h -p -r -R -t -T -c -a --user --group --host --prompt --role --type --chroot --chdir --close-from"
    " --other-user --command-timeout",
    assigns=True,
    rule="other-user",
)
_CONTAINER: Final = (
    "-e -v -w -p -u -l -h -m -c -a -f --env --env-file --volume --mount"
    " --workdir --publish --user --name --network --net"
    " --hostname --entrypoint --label --memory --cpus --gpus --add-host --device --dns --expose --link --log-driver"
    " --platform --pull --restart --runtime --shm-size --tmpfs --ulimit"
    " --volumes-from --cap-add --cap-drop --security-opt"
    " --pid --ipc --userns --cidfile --detach-keys --context --index"
    " --project-directory --profile --file --project-name"
    " -n --namespace --container --kubeconfig --cluster --image --overrides"
)
WRAPPERS: Final[dict[str, Wrapper]] = {
    "timeout": _wrapper("-k -s --kill-after --signal", skip=1),
    "gtimeout": _wrapper("-k -s --kill-after --signal", skip=1),
    "nice": _wrapper("-n --adjustment"),
    "ionice": _wrapper("-c -n -p -P -u --class --classdata"),
    "chrt": _wrapper("-T -P -D", skip=1),
    "taskset": _wrapper("", skip=1),
    "numactl": _wrapper("-i -N -m -C -p --interleave --cpunodebind --membind --physcpubind --preferred"),
    "nohup": _wrapper(),
    "setsid": _wrapper(),
    "stdbuf": _wrapper("-i -o -e --input --output --error"),
    "unbuffer": _wrapper(),
    "time": _wrapper("-f -o --format --output", assigns=True),
    "command": _wrapper(),
    "builtin": _wrapper(),
    "exec": _wrapper("-a"),
    "coproc": _wrapper(assigns=True),
    "env": _wrapper(
        "-u -C --unset --chdir --block-signal --default-signal --ignore-signal", assigns=True, codes="-S --split-string"
    ),
    "sudo": _SUDO,
    "doas": _wrapper("-u -C", assigns=True, rule="other-user"),
    "pkexec": _wrapper("--user", rule="other-user"),
    "gosu": _wrapper("", skip=1, rule="other-user"),
    "su-exec": _wrapper("", skip=1, rule="other-user"),
    "setpriv": _wrapper(
        "--reuid --regid --groups --inh-caps --ambient-caps --bounding-set --securebits --selinux-label"
    ),
    "capsh": _wrapper("", dashes=True),
    "su": _wrapper("-g -G -s -w -C --shell --group", codes="-c --command --session-command", rule="other-user"),
    "runuser": _wrapper(
        "-u -g -G -s -w --user --shell --group", codes="-c --command --session-command", rule="other-user"
    ),
    "chroot": _wrapper("--userspec --groups", skip=1),
    "unshare": _wrapper("-S -G -R -w --root --wd --setuid --setgid --map-user --map-group"),
    "nsenter": _wrapper("-t -S -G --target --setuid --setgid"),
    "systemd-run": _wrapper(
        "-u -p -M -H -E -t --unit --property --slice --uid --gid --setenv"
        " --working-directory --machine --host --description"
    ),
    "flock": _wrapper("-w -E --timeout --wait --conflict-exit-code", skip=1, codes="-c --command"),
    "watch": _wrapper("-n --interval -q --equexit", text=True),
    "strace": _wrapper("-o -e -p -s -u -E -a -I -O -S -X -P -b --output --trace --attach --string-limit"),
    "ltrace": _wrapper("-o -e -p -s -u -a -n -l -x"),
    "perf": _wrapper("-e -o -p --event --output", subcommands="stat record trace"),
    "valgrind": _wrapper(),
    "gdb": _wrapper("-x -ex", codes=""),
    "script": _wrapper("-I -O -B -T -t -E --log-in --log-out --log-io", codes="-c --command"),
    "xvfb-run": _wrapper("-n -s -f -e -p -w --server-num --server-args --auth-file --error-file"),
    "dbus-run-session": _wrapper("--config-file", dashes=False),
    "ssh-agent": _wrapper("-a -t -E -O -P"),
    "fakeroot": _wrapper("-l -s -i -b --lib --faked"),
    "proot": _wrapper("-r -b -w -q -k --rootfs --bind --cwd"),
    "bwrap": _wrapper("", dashes=True),
    "firejail": _wrapper(),
    "prlimit": _wrapper("-p --pid"),
    "choom": _wrapper("-n -p"),
    "cgexec": _wrapper("-g"),
    "setarch": _wrapper("", skip=1),
    "linux32": _wrapper(),
    "linux64": _wrapper(),
    "catchsegv": _wrapper(),
    "chronic": _wrapper(),
    "tini": _wrapper("-p -e"),
    "dumb-init": _wrapper("-r --rewrite"),
    "torsocks": _wrapper("-u -p -a -P"),
    "proxychains": _wrapper("-f"),
    "proxychains4": _wrapper("-f"),
    "rlwrap": _wrapper("-C -f -H -P -p -s -w"),
    "entr": _wrapper("", codes=""),
    "hyperfine": _wrapper(
        "-w -m -M -r -s -n -i -L -P --warmup --min-runs --max-runs --runs --export-json --export-markdown --export-csv",
        text=True,
        codes="-p -c -S --prepare --setup --cleanup",
    ),
    "parallel": _wrapper(
        "-j -a -I -N -n -L -S --jobs --arg-file --colsep --delay --joblog"
        " --results --retries --timeout --tmpdir --workdir",
        text=True,
    ),
    "sem": _wrapper("-j --id --jobs --timeout", text=True),
    "xargs": _wrapper(
        "-a -d -E -e -I -L -n -P -s --arg-file --delimiter --max-args"
        " --max-chars --max-lines --max-procs --replace --process-slot-var"
    ),
    "busybox": _wrapper(),
    "toybox": _wrapper(),
    "start-stop-daemon": _wrapper("", dashes=True, codes="-x -a --exec --startas"),
    "run-one": _wrapper(),
    "chpst": _wrapper("-u -U -b -/ -e -n -l -L -m -d -o -p -f -c"),
    "ssh": _wrapper("-b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w -B", skip=1, text=True, remote=True),
    "mosh": _wrapper("-p --ssh --predict", skip=1, text=True, remote=True),
    "sshpass": _wrapper("-p -f -d -P"),
    "docker": _wrapper(_CONTAINER, skip=2, remote=True, subcommands="run exec"),
    "podman": _wrapper(_CONTAINER, skip=2, remote=True, subcommands="run exec"),
    "nerdctl": _wrapper(_CONTAINER, skip=2, remote=True, subcommands="run exec"),
    "docker-compose": _wrapper(_CONTAINER, skip=2, remote=True, subcommands="run exec"),
    "kubectl": _wrapper(_CONTAINER, remote=True, subcommands="exec run debug", dashes=True),
    "oc": _wrapper(_CONTAINER, remote=True, subcommands="exec run debug", dashes=True),
    "uv": _wrapper(
        "--with --python -p --with-requirements --extra --group --env-file"
        " --directory --project --index-url --with-editable --package",
        skip=1,
        subcommands="run",
    ),
    "uvx": _wrapper("--from --with --python -p --index-url"),
    "pipx": _wrapper("--spec --python", skip=1, subcommands="run"),
    "poetry": _wrapper("-C -P --directory --project", skip=1, subcommands="run"),
    "pdm": _wrapper("-p --project", skip=1, subcommands="run"),
    "hatch": _wrapper("-e --env", skip=1, subcommands="run"),
    "rye": _wrapper("", skip=1, subcommands="run"),
    "pipenv": _wrapper("", skip=1, subcommands="run"),
    "conda": _wrapper("-n -p --name --prefix --cwd", skip=1, subcommands="run"),
    "mamba": _wrapper("-n -p --name --prefix --cwd", skip=1, subcommands="run"),
    "micromamba": _wrapper("-n -p --name --prefix --cwd", skip=1, subcommands="run"),
    "bundle": _wrapper("", skip=1, subcommands="exec"),
    "rbenv": _wrapper("", skip=1, subcommands="exec"),
    "pyenv": _wrapper("", skip=1, subcommands="exec"),
    "direnv": _wrapper("", skip=2, subcommands="exec"),
    "asdf": _wrapper("", skip=1, subcommands="exec"),
    "mise": _wrapper("", subcommands="exec x", dashes=True),
    "npx": _wrapper("-p --package -w --workspace", codes="-c --call"),
    "bunx": _wrapper("-p --package"),
    "npm": _wrapper("-w --workspace --prefix", skip=1, subcommands="exec x", codes="-c --call"),
    "pnpm": _wrapper("-C -F --dir --filter", skip=1, subcommands="exec dlx"),
    "yarn": _wrapper("--cwd", skip=1, subcommands="exec dlx"),
    "dotenv": _wrapper("-f -e --file"),
    "cargo": _wrapper("-w -x -s -C --watch --exec", subcommands="watch", codes="-x -s"),
    "nix-shell": _wrapper("-p -A -I --packages --attr", codes="--run --command"),
    "tmux": _wrapper(
        "-c -F -n -s -t -x -y -e -L -S -f",
        skip=1,
        text=True,
        subcommands="new new-session neww new-window split-window splitw respawn-pane respawn-window run-shell run",
    ),
    "screen": _wrapper("-S -c -e -h -p -s -t -T"),
    "start": _wrapper(),
    "expect": _wrapper("", codes=""),
    "daemonize": _wrapper("-c -e -o -p -l -u -E"),
    "nq": _wrapper(),
    "retry": _wrapper("-t -d -m --times --delay --max"),
    "wsl": _wrapper("-d -u --distribution --user"),
    "xterm": _wrapper("-T -title -geometry", codes=""),
}
for _number in ("i386", "x86_64", "arch"):
    WRAPPERS.setdefault(_number, Wrapper())


class Inner(NamedTuple):
    """What a wrapper runs."""

    form: Form
    words: tuple[Text, ...]
    """The command; or, as a text, a tuple of one."""


def options(argv: tuple[Text, ...], values: frozenset[str], at: int = 1) -> Iterator[tuple[int, str, Text | None]]:
    """The options from `at` on: (index of what follows, name, value). Ends at the first operand, or behind ``--``."""
    while at < len(argv):
        text = argv[at].shown
        if text == "--":
            yield at + 1, "--", None
            return
        if len(text) < 2 or text[0] != "-":
            return
        if text.startswith("--") or text in values:
            name, equals, attached = text.partition("=")
            if equals and text.startswith("--"):
                at += 1
                yield at, name, Text(attached, argv[at - 1].taint)
            elif text in values:
                at += 2
                yield min(at, len(argv)), text, argv[at - 1] if at - 1 < len(argv) else None
            else:
                at += 1
                yield at, text, None
            continue
        at += 1
        for n, letter in enumerate(text[1:], 1):
            name = f"-{letter}"
            if name in values:
                if n + 1 < len(text):
                    yield at, name, Text(text[n + 1 :], argv[at - 1].taint)
                else:
                    at += 1
                    yield min(at, len(argv)), name, argv[at - 1] if at - 1 < len(argv) else None
                break
            yield at, name, None


def unwrapped(name: str, argv: tuple[Text, ...]) -> Iterator[Inner]:
    """What ``argv``, whose program is `name`, runs."""
    wrapper = WRAPPERS[name]
    if name in ("su", "runuser", "script"):
        yield from _switched(argv, wrapper)
        return
    at = 1
    if wrapper.subcommands is not None:
        at = next((n for n, word in enumerate(argv[:6]) if n and word.text in wrapper.subcommands), 0) + 1
        if at == 1:
            return
    if wrapper.dashes:
        at = next((n for n, word in enumerate(argv) if word.text == "--"), len(argv)) + 1
        if at <= len(argv):
            yield Inner("command", argv[at:])
        return
    for at, option, value in options(argv, wrapper.values | wrapper.codes, at):  # noqa: B020
        if option in wrapper.codes and value is not None:
            if name == "env":  # what follows goes behind the words of the text
                yield Inner("text", (joined([value, *argv[at:]], " "),))
                return
            yield Inner("text", (value,))
        if name in ("command", "builtin") and option in ("-v", "-V"):
            return
    at += wrapper.skip - (1 if wrapper.subcommands is not None else 0)
    if wrapper.assigns:
        while at < len(argv) and "=" in argv[at].text and argv[at].text.partition("=")[0].replace("_", "a").isalnum():
            at += 1
    while name in ("time", "coproc", "command") and at < len(argv) and argv[at].text in ("!", "{", "(", "time"):
        at += 1
    if name == "coproc" and at + 1 < len(argv) and argv[at + 1].text == "{":
        at += 2
    rest = argv[at:]
    if not rest:
        return
    if wrapper.text:
        yield Inner("text", (joined(list(rest), " "),))
    elif name in ("flock", "script") and len(rest) > 1 and rest[0].text == "-c":
        yield Inner("text", rest[1:2])
    else:
        yield Inner("command", rest)


def _switched(argv: tuple[Text, ...], wrapper: Wrapper) -> Iterator[Inner]:
    """What ``su`` runs; its options may stand behind the name of the user, and behind two dashes."""
    at, named = 1, False
    while at < len(argv):
        end = at
        for end, option, value in options(argv, wrapper.values | wrapper.codes, at):
            if option in wrapper.codes and value is not None:
                yield Inner("text", (value,))
            elif option in ("-u", "--user"):
                named = True
            elif option == "--" and named:
                yield Inner("command", argv[end:])
                return
        if named and end < len(argv):
            yield Inner("command", argv[end:])
            return
        at = end if end > at and argv[end - 1].text == "--" else max(end, at) + 1


def with_input(name: str, argv: tuple[Text, ...], given: Text | None) -> tuple[Text, ...]:
    """The arguments of ``xargs`` or ``parallel`` with what they read put in: in place of marks, or behind."""
    if given is None:
        given = Text(HOLE)
    marks = {"{}"} if name == "parallel" else set()
    end = 1
    for end, option, value in options(argv, WRAPPERS[name].values):  # noqa: B007
        if option in ("-I", "--replace"):
            marks.add(value.text if value is not None else "{}")
        elif option == "-i":
            marks.add("{}")
    if any(mark and mark in word.text for mark in marks for word in argv[end:]):
        first = Text(given.text.strip(), given.taint)
        return (*argv[:end], *(_replaced(word, marks, first) for word in argv[end:]))
    return (*argv, *(Text(word, given.taint) for word in given.text.split()[:_READ_WORDS]))


def _replaced(word: Text, marks: set[str], given: Text) -> Text:
    for mark in marks:
        if mark and mark in word.text:
            word = Text(word.text.replace(mark, given.text), word.taint | given.taint)
    return word
