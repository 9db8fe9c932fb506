"""Checks over the `g` rows: namespaces, cycles, chains, roles that lead nowhere, domains."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from remit.authz.documents import near_miss
from remit.providers.casbin.checks.names import SimilarRoles
from remit.providers.casbin.checks.shape import Shape
from remit.providers.casbin.checks.table import Table
from remit.providers.casbin.files.findings import Findings
from remit.providers.casbin.native import ROLE
from remit.providers.casbin.rules import Link

_LOOKS_LIKE_PATTERN = re.compile(r"\*|/:\w|\{\w+\}|^\^|\$$")
_CASBIN_DEPTH = 9  # Casbin follows that many links and ignores the rest without a word


def place_members(links: Iterable[Link], known: Collection[str], findings: Findings) -> list[Link]:
    """`links` of remit's own model with a namespace on every member. A bare name must be a known role."""
    out: list[Link] = []
    for link in links:
        member = link.values[0]
        if ":" in member:
            out.append(link)
        elif ROLE + member in known:
            out.append(link._replace(values=(ROLE + member, *link.values[1:])))
        else:
            hint = near_miss(member, [name.removeprefix(ROLE) for name in known])
            advice = f"did you mean {f'user:{member}'!r}?" + (f" Or {hint[len('did you mean ') :]}" if hint else "")
            message = f"{member!r} is no role that any row knows"
            findings.error("unknown-member", link.file, link.line, message, advice, link.key)
    return out


def check_links(
    table: Table, shape: Shape, links: list[Link], declared: Collection[str], findings: Findings, *, complete: bool
) -> None:
    """Report everything that is wrong with `links`.

    Args:
        declared: Roles that are known without a row.
        complete: False when rows were refused before, so that a name without rules says nothing.
    """
    for gtype in table.model.roles:
        own = [link for link in links if link.gtype == gtype]
        if not own:
            continue
        _check_duplicates(own, findings)
        _check_patterns(own, findings)
        if table.model.roles[gtype] == 3:
            _check_domains(own, findings)
        by_domain: dict[str, list[Link]] = {}
        for link in own:
            by_domain.setdefault(link.values[2] if len(link.values) > 2 else "", []).append(link)
        for group in by_domain.values():
            _check_graph(group, findings)
        if complete:
            _check_loose_ends(table, shape, gtype, own, declared, findings)


def _check_duplicates(links: list[Link], findings: Findings) -> None:
    first: dict[tuple[str, ...], Link] = {}
    for link in links:
        other = first.setdefault(link.values, link)
        if other is not link:
            message = f"repeats {other.file}:{other.line}"
            findings.warning("duplicate-row", link.file, link.line, message, "delete one of them", link.key)


def _check_patterns(links: list[Link], findings: Findings) -> None:
    text = "\n".join([name for link in links for name in link.values[:2]])
    if not any(mark in text for mark in ("*", "/:", "{", "^", "$")):
        return
    for link in links:
        for name in link.values[:2]:
            if _LOOKS_LIKE_PATTERN.search(name) is not None:
                message = f"{name!r} looks like a pattern, but role rows compare names exactly"
                findings.warning("pattern-in-roles", link.file, link.line, message, "name each member", link.key)


def _check_domains(links: list[Link], findings: Findings) -> None:
    for link in links:
        if link.values[2] == "*":
            message = "'*' is no domain here: a role in every domain needs a row for each"
            findings.error("domain", link.file, link.line, message, "name the domain", link.key)


def _check_graph(links: list[Link], findings: Findings) -> None:
    """Cycles, and chains that Casbin would cut. Walks without recursion: chains may be long."""
    roles = {link.values[1] for link in links}
    above: dict[str, list[Link]] = {}
    for link in links:
        if link.values[0] in roles:  # nobody leads back to a member that is no role itself
            above.setdefault(link.values[0], []).append(link)
    height: dict[str, int] = {}
    for start in above:
        if start not in height:
            _climb(start, above, height, findings)
    longest = max(links, key=lambda link: height.get(link.values[1], 0))
    length = 1 + height.get(longest.values[1], 0)
    if length > _CASBIN_DEPTH:
        message = f"{longest.values[0]!r} has a chain of {length} roles; Casbin stops after {_CASBIN_DEPTH}"
        advice = "remit follows all of them; shorten it to be sure"
        findings.warning("long-role-chain", longest.file, longest.line, message, advice, longest.key)


def _climb(start: str, above: dict[str, list[Link]], height: dict[str, int], findings: Findings) -> None:
    """Fill `height`, the length of the longest chain above a name, for `start` and everything above it."""
    path: dict[str, None] = {start: None}
    stack = [(start, iter(above[start]))]
    while stack:
        name, rest = stack[-1]
        link = next(rest, None)
        if link is None:
            stack.pop()
            del path[name]
            height[name] = max((1 + height.get(up.values[1], 0) for up in above.get(name, ())), default=0)
            continue
        role = link.values[1]
        if role in path:
            _report_cycle(role, link, list(path), findings)
        elif role not in height:
            path[role] = None
            stack.append((role, iter(above.get(role, ()))))


def _report_cycle(role: str, link: Link, path: list[str], findings: Findings) -> None:
    loop = [*path[path.index(role) :], role]
    shown = " -> ".join(loop if len(loop) < 8 else [*loop[:6], "…", role])
    advice = "delete this row" if len(loop) == 2 else "delete one of these rows"
    findings.error("role-cycle", link.file, link.line, f"roles in a circle: {shown}", advice, link.key)


def _check_loose_ends(
    table: Table, shape: Shape, gtype: str, links: list[Link], declared: Collection[str], findings: Findings
) -> None:
    """Names on the policy's side of `g` that no rule mentions and that lead to no other role."""
    members = {link.values[0] for link in links}
    roles = {link.values[1] for link in links}
    for column, on_right in sorted(shape.roles.get(gtype, ())):
        with_rules = table.distinct(column) | set(declared)
        if on_right:
            known = with_rules | members
            loose = [link for link in links if link.values[1] not in known]
            similar = SimilarRoles(with_rules - {"*"}) if loose or table.model.native else None
            for link in loose:
                _report_loose(link.values[1], link, similar, table, findings)
            if table.model.native and similar is not None:
                _check_members(links, with_rules | roles, similar, findings)
        else:
            loose = [link for link in links if link.values[0] not in with_rules and link.values[0] not in roles]
            similar = SimilarRoles(with_rules - {"*"}) if loose else None
            for link in loose:
                _report_loose(link.values[0], link, similar, table, findings)


def _report_loose(name: str, link: Link, similar: SimilarRoles | None, table: Table, findings: Findings) -> None:
    other = similar.to(name) if similar is not None else None
    message = f"no rule mentions the role {name!r}, and it leads to no other role"
    if other is not None:
        advice = f"did you mean {other!r}?"
        findings.error("unknown-role", link.file, link.line, message, advice, link.key)
    elif link.key and table.model.native:
        findings.error(
            "unknown-role", link.file, link.line, f"unknown role {name!r}", "define it under 'roles'", link.key
        )
    else:
        findings.warning("role-without-rules", link.file, link.line, message, "write a rule for it, or delete this row")


def _check_members(links: list[Link], known: Collection[str], similar: SimilarRoles, findings: Findings) -> None:
    """A role that only stands on the left must not be a slip of a role that has rules: its denials would be lost."""
    told: set[str] = set()
    for link in links:
        name = link.values[0]
        if not name.startswith(ROLE) or name in known or name in told:
            continue
        if (other := similar.to(name)) is not None:
            told.add(name)
            message = f"no rule mentions the role {name!r}, and nothing has it"
            findings.error("unknown-role", link.file, link.line, message, f"did you mean {other!r}?", link.key)
