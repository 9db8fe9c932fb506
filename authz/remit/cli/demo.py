"""`remit demo`: three people ask one agent for the same four things, and a policy in files decides.

Everything shown was observed: which tools the model was bound to, the outcome of each call, which bodies ran. All of it
is compared with what the policy says when it is asked directly, and the exit code is that comparison.
"""

from __future__ import annotations

import logging
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from remit.authz.errors import ConfigError
from remit.cli.console import complain, say
from remit.cli.exits import Exit
from remit.cli.starter import starter_files, write_files

if TYPE_CHECKING:
    from remit.cli._demo_agent import Call, DemoAgent

PEOPLE = (("gwen", "guest"), ("ulli", "user"), ("ada", "admin"))
REVOCATION = "p, role:admin, tool, bash, call, deny,"
RELOAD_SECONDS = 5.0
WIDTH = 100
SAID = 17
STYLES = {"allowed": "green", "asked": "yellow", "denied": "red"}


def run() -> int:
    """Play the demo.

    Returns:
        0 when everything shown is what the policy says, else 1.

    Raises:
        ConfigError: The extra ``agent`` is not installed, or the installation lacks the starter policy.
    """
    try:
        from remit.cli import _demo_agent
    except ModuleNotFoundError as exc:
        raise ConfigError(
            f"the demo runs a LangChain agent, and {exc.name!r} is missing; install remit[agent]"
        ) from exc
    with _own_folder() as folder:
        write_files(folder, starter_files())
        with closing(_demo_agent.DemoAgent(folder)) as agent, _quiet():
            mismatches = _three_people(agent, folder)
            mismatches += _revocation(agent, folder)
    say("")
    if mismatches:
        for mismatch in mismatches:
            complain(f"demo: {mismatch}")
        say(("What happened differs from what the policy says.", "bold red"))
        return Exit.FINDINGS
    done = ", ".join(f"{tool} {agent.ran.count(tool)}x" for tool in _demo_agent.ARGUMENTS)
    say(f"Tools that ran: {done}. They only take notes.")
    say(("All of it is what the policy says.", "bold green"))
    return Exit.FINE


def _three_people(agent: DemoAgent, folder: Path) -> list[str]:
    from remit.cli._demo_agent import ARGUMENTS, Turn

    say("One agent, one policy. Three people ask it to search, write a file, run a command and send a mail;")
    say("the model tries everything, shown or not.")
    mismatches = []
    for user, role in PEOPLE:
        episode = agent.run(user, role, [Turn(tuple(ARGUMENTS))])
        say("")
        say((f"{role} {user}", "bold"), f"  the model sees: {_names(episode.shown[0])}")
        for call in episode.calls:
            _show(call, folder)
        mismatches += [f"{role}: {mismatch}" for mismatch in episode.mismatches]
    return mismatches


def _revocation(agent: DemoAgent, folder: Path) -> list[str]:
    from remit.cli._demo_agent import Turn

    user, role = PEOPLE[-1]
    file = folder / "policy.csv"
    episode = agent.run(user, role, [Turn(("bash",)), Turn(("bash",), first=lambda: _append(agent, file, REVOCATION))])
    before, after = episode.calls
    say("")
    say((f"{role} {user}", "bold"), "  again, and between two calls of one run somebody edits the policy")
    _show(before, folder)
    say("  ", (f"+ {REVOCATION}", "bold"), f"   added to {file.name} while the agent runs")
    _show(after, folder)
    say(f"  the model now sees: {_names(episode.shown[-1])}")
    mismatches = [f"after the edit: {mismatch}" for mismatch in episode.mismatches]
    if (before.answer.verdict, after.answer.verdict) != ("allowed", "denied"):
        mismatches.append("the edit did not turn the call from allowed to denied")
    return mismatches


def _show(call: Call, folder: Path) -> None:
    answer = call.answer
    said = "asked, approved" if answer.verdict == "asked" and answer.runs else answer.verdict
    head = f"  {call.tool:<11} "
    why = "no rule allows it" if answer.rule is None else f"{answer.rule}  {_text_of(answer.rule, folder)}"
    room = WIDTH - len(head) - SAID
    say(head, (f"{said:<{SAID}}", STYLES[answer.verdict]), why if len(why) <= room else f"{why[: room - 1]}…")


def _text_of(rule: str, folder: Path) -> str:
    """The line that `rule` (``file:line``) names, as it stands in the file."""
    file, _, line = rule.rpartition(":")
    lines = (folder / file).read_text(encoding="utf-8").splitlines()
    return " ".join(lines[int(line) - 1].split())


def _names(tools: tuple[str, ...]) -> str:
    return ", ".join(tools) or "nothing"


def _append(agent: DemoAgent, file: Path, row: str) -> None:
    """Replace `file` as an editor does, and wait until the running provider has taken it.

    Raises:
        ConfigError: It did not, in `RELOAD_SECONDS`.
    """
    before = agent.enforcer.policy_version
    draft = file.with_suffix(".new")
    draft.write_text(file.read_text(encoding="utf-8").rstrip("\n") + f"\n{row}\n", encoding="utf-8")
    os.replace(draft, file)
    end = time.monotonic() + RELOAD_SECONDS
    while agent.enforcer.policy_version == before:
        if time.monotonic() > end:
            raise ConfigError(f"the edited {file.name} was not taken within {RELOAD_SECONDS:g} s")
        time.sleep(0.01)


@contextmanager
def _own_folder() -> Iterator[Path]:
    """A folder for policy and log that goes away, and an environment without anybody's settings for remit."""
    theirs = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("REMIT_")}
    try:
        with tempfile.TemporaryDirectory(prefix="remit-demo-") as name:
            folder = Path(name) / "policies"
            os.environ["REMIT_STATE_DIR"] = str(Path(name) / "state")
            yield folder
    finally:
        os.environ.pop("REMIT_STATE_DIR", None)
        os.environ.update(theirs)


@contextmanager
def _quiet() -> Iterator[None]:
    """Denials are what is shown here; a service would see them in its log as well."""
    log = logging.getLogger("remit")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)
