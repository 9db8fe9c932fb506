"""Reading `roles.yaml`, the form of a policy that operators write by hand, into the rows it stands for.

One list entry becomes one row per action it grants. A row keeps the line of the entry and the path to it, so that a
decision can name ``roles.yaml:7`` and ``roles.user.tools.allow``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from remit.authz.vocabulary import flaw
from remit.providers.casbin.files.csvfile import Sheet
from remit.providers.casbin.files.effects import ALLOW, ASK, DENY
from remit.providers.casbin.files.findings import Findings
from remit.providers.casbin.files.yamltext import Entry, Node, read_yaml
from remit.providers.casbin.native import EVERYONE, ROLE, USER
from remit.providers.casbin.rules import Link, Rule


class Section(NamedTuple):
    """What a key of a role means in terms of rows."""

    resource: str
    granted: tuple[str, ...]
    """The actions that `allow` and `ask` speak of."""
    extra: str = ""
    """A further list of this section, which allows the action of the same name."""
    unlisted: bool = True
    """Whether ``unlisted: allow`` opens it."""


SECTIONS: Final = {
    "tools": Section("tool", ("call",)),
    "models": Section("model", ("list", "use")),
    "skills": Section("skill", ("read", "activate"), "manage"),
    "sandbox": Section("sandbox", ("execute",)),
    "mcp_servers": Section("mcp_server", ("use",)),
    "routes": Section("route", (EVERYONE,)),
    "subagents": Section("subagent", ("delegate",)),
    "memory": Section("memory", ("read",), "write"),
    "commands": Section("command", ("execute",), unlisted=False),
}
"""Key of a role -> its meaning. `commands` only adjusts the verdicts of an audit, so silence changes nothing."""

EFFECT_KEYS: Final = (ALLOW, DENY, ASK)
_TOP: Final = ("version", "roles", "unlisted", "users")
MAGIC: Final = frozenset("*?[{\\")


class Grant(NamedTuple):
    """One entry of a list."""

    name: str
    line: int


def read_roles(text: str, file: str, findings: Findings) -> Sheet:
    """Every row that `text`, a `roles.yaml`, stands for. Problems go to `findings`.

    Args:
        file: Its name in problems and policy ids.
    """
    sheet = Sheet(ascii=text.isascii() and "\\" not in text)  # an escape may stand for any character
    if not text.strip():
        findings.error("empty-file", file, 0, "is empty", "write 'roles:', or take it out of 'policies'")
        return sheet
    root = read_yaml(text, file, findings)
    if root is not None:
        _RolesReader(file, sheet, findings).document(root)
    return sheet


class _RolesReader:
    def __init__(self, file: str, sheet: Sheet, findings: Findings) -> None:
        self.file, self.sheet, self.findings = file, sheet, findings
        self.parents: dict[str, list[str]] = {}
        self.mentions: dict[str, set[str]] = {}

    def error(self, code: str, line: int, key: str, message: str, advice: str) -> None:
        self.findings.error(code, self.file, line, message, advice, key)

    def document(self, root: Node) -> None:
        entries = {entry.key: entry for entry in root.entries("", dict.fromkeys(_TOP))}
        if root.kind == "mapping" and "roles" not in entries:
            root.error("missing-key", "", "the key 'roles' is missing", "add 'roles:' with at least one role")
        version = entries.get("version")
        if version is not None and (version.value.kind, version.value.text) != ("number", "1"):
            message = f"must be the number 1, not {version.value.described()}"
            version.value.error("version", "version", message, "write 'version: 1'")
        if roles := entries.get("roles"):
            for entry in roles.value.entries("roles"):
                self.role(entry)
        if users := entries.get("users"):
            for entry in users.value.entries("users"):
                self.user(entry)
        if unlisted := entries.get("unlisted"):
            self.unlisted(unlisted.value)

    def role(self, entry: Entry) -> None:
        key = f"roles.{entry.key}"
        name = entry.key.removeprefix(ROLE)
        reason = flaw(name)
        if reason is not None or "*" in name or entry.key.startswith(USER):
            what = reason or ("is no pattern here" if "*" in name else "is a user, not a role")
            advice = (
                "write the roles of a user under 'users'"
                if entry.key.startswith(USER)
                else "write the name of one role"
            )
            self.error("role-name", entry.line, "roles", f"the role {entry.key!r} {what}", advice)
            return
        role = ROLE + name
        if role in self.sheet.declared:
            self.error("duplicate-key", entry.line, key, f"the role {name!r} is defined again", "keep one")
            return
        self.sheet.declared.add(role)
        self.parents[role], self.mentions[role] = [], set()
        known = dict.fromkeys(("inherits", *SECTIONS))
        for part in entry.value.entries(key, known):
            if part.key == "inherits":
                self.links(role, part.value, f"{key}.inherits")
            else:
                self.mentions[role].add(part.key)
                self.section(role, SECTIONS[part.key], part, f"{key}.{part.key}")

    def links(self, member: str, node: Node, key: str) -> None:
        for grant in self.names(node, key, "a list of roles"):
            parent = ROLE + grant.name.removeprefix(ROLE)
            if "*" in grant.name or grant.name.startswith(USER):
                self.error("role-name", grant.line, key, f"{grant.name!r} is no role", "write the name of one role")
                continue
            if member in self.parents:
                self.parents[member].append(parent)
            self.sheet.links.append(Link((member, parent), self.file, grant.line, "g", key))

    def user(self, entry: Entry) -> None:
        name = entry.key.removeprefix(USER)
        if (reason := flaw(name)) is not None or "*" in name or entry.key.startswith(ROLE):
            what = reason or ("is no pattern here" if "*" in name else "is a role, not a user")
            self.error("user-name", entry.line, "users", f"the user {entry.key!r} {what}", "write the id of one user")
            return
        self.links(USER + name, entry.value, f"users.{entry.key}")

    def section(self, role: str, section: Section, part: Entry, key: str) -> None:
        known = (*EFFECT_KEYS, section.extra) if section.extra else EFFECT_KEYS
        entries = list(part.value.entries(key, dict.fromkeys(known)))
        for entry in entries:
            path = f"{key}.{entry.key}"
            effect = ALLOW if entry.key == section.extra else entry.key
            for grant in self.grants(entry.value, path):
                if (misfit := _misfit(section, effect, grant.name)) is not None:
                    self.error(section.resource, grant.line, path, *misfit)
                    continue
                for action in self.actions(section, entry.key, grant.name):
                    row = (role, section.resource, grant.name, action, effect, "")
                    self.sheet.rules.append(Rule(row, self.file, grant.line, "p", path))

    @staticmethod
    def actions(section: Section, word: str, name: str) -> tuple[str, ...]:
        if section.resource == "route":
            verb = name.rpartition(":")[2]
            return (EVERYONE if MAGIC & set(verb) else verb,)
        if word == section.extra:
            return (section.extra,)
        if word == DENY and (len(section.granted) > 1 or section.extra):
            return (EVERYONE,)
        return section.granted

    def grants(self, node: Node, key: str) -> Iterator[Grant]:
        """``"*"`` or true is everything, ``[]`` and false nothing, else a list of names and patterns."""
        if node.is_true or (node.kind == "text" and node.text == EVERYONE):
            yield Grant(EVERYONE, node.line)
        elif not node.is_false:
            yield from self.names(node, key, 'a list of names, "*", true or false')

    @staticmethod
    def names(node: Node, key: str, wanted: str) -> Iterator[Grant]:
        kind = node.kind
        if kind != "list":
            node.error("wrong-type", key, f"must be {wanted}, not {node.described()}", _list_advice(node))
            return
        seen: dict[str, int] = {}
        for item in node.items():
            name = item.text if item.kind == "text" else ""
            if item.kind != "text":
                quotable = item.kind not in ("mapping", "list", "tagged", "null")
                advice = f'write "{item.text}" in quotes' if quotable else "write names only"
                item.error("wrong-type", key, f"{item.described()} is no text", advice)
            elif (reason := flaw(name)) is not None:
                item.error("name", key, f"the name {name!r} {reason}", "correct the name")
            elif name in seen:
                item.error("duplicate-name", key, f"{name!r} is listed again (first on line {seen[name]})", "keep one")
            else:
                seen[name] = item.line
                yield Grant(name, item.line)

    def unlisted(self, node: Node) -> None:
        """``unlisted: allow`` opens what neither a role nor one that it inherits from mentions."""
        if node.kind != "text" or node.text not in (ALLOW, DENY):
            node.error(
                "unlisted", "unlisted", f"must be allow or deny, not {node.described()}", "write 'unlisted: deny'"
            )
            return
        if node.text == DENY:
            return
        for role in self.parents:
            lineage = self.lineage(role)
            mentioned = set().union(*(self.mentions.get(name, ()) for name in lineage))
            for key, section in SECTIONS.items():
                if not section.unlisted:
                    continue
                if key not in mentioned:
                    for action in section.granted:
                        row = (role, section.resource, EVERYONE, action, ALLOW, "")
                        self.sheet.rules.append(Rule(row, self.file, node.line, "p", "unlisted"))
                elif key in self.mentions[role]:
                    self.refuse_wider_parent(role, key, lineage, node)

    def refuse_wider_parent(self, role: str, key: str, lineage: list[str], node: Node) -> None:
        """What `role` says about `key` would be void if a role it inherits from had everything by not mentioning it."""
        for parent in lineage[1:]:
            if parent in self.parents and not any(key in self.mentions.get(name, ()) for name in self.lineage(parent)):
                above, below = parent.removeprefix(ROLE), role.removeprefix(ROLE)
                self.error(
                    "unlisted",
                    node.line,
                    f"roles.{below}.{key}",
                    f"{above!r} does not mention {key!r}: under 'unlisted: allow' {below!r} inherits everything there",
                    f"mention {key!r} in {above!r}",
                )
                return

    def lineage(self, role: str) -> list[str]:
        """`role` and everything it inherits from, nearest first."""
        out = [role]
        for name in out:
            out += [parent for parent in self.parents.get(name, ()) if parent not in out]
        return out


def _misfit(section: Section, effect: str, name: str) -> tuple[str, str] | None:
    """Why the name can never be asked for, or never change an answer, under this section: message and advice."""
    if section.resource == "route" and name != EVERYONE and ":" not in name:
        return f"{name!r} is no permission", f"write 'THING:VERB', for example {name + ':read'!r}"
    if section.resource == "sandbox" and name != EVERYONE:
        return f"sandboxes have no names, so {name!r} is never asked for", "write true or false"
    if section.resource == "command" and effect == ALLOW and MAGIC & set(name):
        return f"{name!r} cannot lower a verdict", "allow exact rule ids of the command audit"
    return None


def _list_advice(node: Node) -> str:
    if node.kind == "null":
        return "write [] for nothing"
    if node.kind == "boolean":
        return 'write true or "*" for everything, false or [] for nothing'
    if node.kind == "text":
        if node.text.lstrip().startswith("["):
            return "take the quotes away: it is a text, not a list"
        return f"write [{node.text}]"
    return "write [name, name]"
