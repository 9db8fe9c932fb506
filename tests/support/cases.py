"""Policy files as they are found in the wild, with what must come out. Shared by the tests of loading and of deciding.

The requests of a case are raw: one value per request column of its model. `templates` gives request templates that
pass them through, by attributes of the principal.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


def _model(request: str, policy: str, matcher: str, *, roles: str = "", deny: bool = False) -> str:
    effect = "some(where (p.eft == allow))" + (" && !some(where (p.eft == deny))" if deny else "")
    section = f"[role_definition]\n{roles}\n" if roles else ""
    return (
        f"[request_definition]\nr = {request}\n[policy_definition]\np = {policy}\n{section}"
        f"[policy_effect]\ne = {effect}\n[matchers]\nm = {matcher}\n"
    )


THREE = _model(
    "sub, obj, act", "sub, obj, act", "g(r.sub, p.sub) && r.obj == p.obj && r.act == p.act", roles="g = _, _"
)
FOUR = _model(
    "sub, obj, act",
    "sub, obj, act, eft",
    "g(r.sub, p.sub) && r.obj == p.obj && r.act == p.act",
    roles="g = _, _",
    deny=True,
)
TENANTS = _model(
    "sub, dom, obj, act",
    "sub, dom, obj, act",
    "g(r.sub, p.sub, r.dom) && r.dom == p.dom && r.obj == p.obj && r.act == p.act",
    roles="g = _, _, _",
)

Ask = tuple[tuple[str, ...], bool]


@dataclass(frozen=True)
class Case:
    """One policy set."""

    id: str
    policy: str
    model: str = THREE
    refused: tuple[tuple[int, str], ...] = ()
    """(line, code) of every error; empty when the set loads."""
    refused_in: str = "policy.csv"
    warned: tuple[tuple[int, str], ...] = ()
    """(line, code) of every warning about the files, when it loads."""
    warned_in_model: tuple[str, ...] = ()
    asks: tuple[Ask, ...] = field(default=())
    """(request, allowed), when it loads."""

    @property
    def columns(self) -> int:
        """Number of request columns."""
        line = next(line for line in self.model.splitlines() if line.startswith("r ="))
        return line.count(",") + 1

    @property
    def templates(self) -> list[str]:
        """Request templates that take the columns from the attributes ``a0``, ``a1``, …"""
        return [f"{{attributes.a{number}}}" for number in range(self.columns)]

    def write(self, folder: Path) -> None:
        """Put ``model.conf`` and ``policy.csv`` into `folder`."""
        (folder / "model.conf").write_text(self.model, encoding="utf-8")
        (folder / "policy.csv").write_text(self.policy, encoding="utf-8")


CASES = (
    Case(
        "CSV-01-byte-order-mark",
        "\ufeffp, guest, bash, call, deny\np, guest, bash, call, allow\n",
        FOUR,
        warned=((2, "contradiction"),),
        asks=((("guest", "bash", "call"), False),),
    ),
    *(
        Case(
            f"CSV-03-{word}",
            f"p, guest, bash, call, {word}\np, guest, bash, call, allow\n",
            FOUR,
            refused=((1, "unknown-effect"),),
        )
        for word in ("Deny", "DENY", "denied", "reject", "block")
    ),
    Case(
        "CSV-05-quotes",
        'p, role:lead, "report, weekly", read\np, role:lead, bash, call\ng, "0b5c-77aa", role:lead\n',
        asks=(
            (("0b5c-77aa", "bash", "call"), True),
            (("0b5c-77aa", "report, weekly", "read"), True),
            (("0b5c-77aa", "report", "read"), False),
            (("someone", "bash", "call"), False),
        ),
    ),
    Case(
        "CSV-07-zero-width-space",
        "p, guest, bash\u200b, call, deny\np, guest, bash, call, allow\n",
        FOUR,
        refused=((1, "name"),),
    ),
    Case(
        "CSV-07-decomposed-accent",
        "p, re\u0301dacteur, bash, call, deny\np, r\u00e9dacteur, bash, call, allow\n",
        FOUR,
        refused=((1, "name"),),
    ),
    Case(
        "CSV-08-one-blank-apart",
        "p, role:admin, bash, call\ng, ops-team, role: admin\n",
        refused=((2, "unknown-role"),),
    ),
    Case(
        "MOD-01-comment-in-columns",
        "p, u, bash, call, deny\np, u, bash, call, allow\n",
        FOUR.replace("p = sub, obj, act, eft", "p = sub, obj, act, eft   # four columns"),
        refused=((4, "comment"),),
        refused_in="model.conf",
    ),
    Case(
        "MOD-03-second-set",
        "p, guest, bash, allow\np2, guest, big-model, allow\np2, guest, big-model, deny\n",
        "[request_definition]\nr = sub, obj\nr2 = sub, obj\n[policy_definition]\np = sub, obj, eft\np2 = sub, obj, eft\n"
        "[policy_effect]\ne = some(where (p.eft == allow)) && !some(where (p.eft == deny))\n"
        "e2 = some(where (p2.eft == allow)) && !some(where (p2.eft == deny))\n"
        "[matchers]\nm = r.sub == p.sub && r.obj == p.obj\nm2 = r2.sub == p2.sub && r2.obj == p2.obj\n",
        refused=((3, "extra-set"), (6, "extra-set"), (9, "extra-set"), (12, "extra-set")),
        refused_in="model.conf",
    ),
    Case(
        "RF-01-two-columns",
        "p, reader, say\np, reader, open_doc\np, runner, say\np, runner, open_doc\np, runner, fetch_url\n"
        "p, runner, terminal\np, owner, say\np, owner, open_doc\np, owner, fetch_url\np, owner, terminal\n"
        "p, owner, notebook\n",
        _model("sub, obj", "sub, obj", "r.sub == p.sub && r.obj == p.obj"),
        asks=(
            (("reader", "terminal"), False),
            (("runner", "terminal"), True),
            (("Runner", "terminal"), False),
            (("runner", "notebook"), False),
            (("nobody", "say"), False),
        ),
    ),
    Case(
        "RF-02-verdict-as-action",
        "# people to roles\ng, nina, staff\ng, omar, operator\n\n# planning rows: third column is a verdict\n"
        "p, staff, plan:topic:general, allow\np, staff, plan:topic:changes, allow\np, staff, plan:topic:sensitive, deny\n"
        "p, operator, plan:topic:sensitive, allow\n\n# execution rows: third column is a verb\n"
        "p, staff, tool:read_manual, execute\np, operator, tool:read_manual, execute\n"
        "p, operator, tool:unlock_account, execute\n",
        THREE.replace("g(r.sub, p.sub)", "(g(r.sub, p.sub) || r.sub == p.sub)"),
        warned=tuple((line, "verdict-elsewhere") for line in (6, 7, 8, 9)),
        asks=(
            (("nina", "plan:topic:sensitive", "deny"), True),
            (("nina", "plan:topic:general", "access"), False),
            (("omar", "tool:unlock_account", "execute"), True),
            (("nina", "tool:unlock_account", "execute"), False),
        ),
    ),
    Case(
        "RF-05-text-after-the-star",
        "# columns: p, subject, resource, action, project/object, verdict\n"
        "p, role:view, apps, get, */*, allow\np, role:view, nodes, get, *, allow\np, role:ops, apps, update, */*, allow\n"
        "p, role:ops, apps, action/*, */*, allow\np, role:ops, apps, get, blue/*-prod, deny\n"
        "g, role:ops, role:view\ng, op1, role:ops\ng, v1, role:view\n",
        _model(
            "sub, res, act, obj",
            "sub, res, act, obj, eft",
            "g(r.sub, p.sub) && keyMatch(r.res, p.res) && keyMatch(r.act, p.act) && keyMatch(r.obj, p.obj)",
            roles="g = _, _",
            deny=True,
        ),
        warned=tuple((line, "text-after-star") for line in (2, 4, 5, 6)),
        asks=(
            (("op1", "apps", "get", "blue/site-prod"), False),
            (("op1", "apps", "get", "blue/site-dev"), False),
            (("v1", "apps", "get", "noslash"), True),
            (("op1", "apps", "action/restart", "blue/x"), True),
            (("op1", "apps", "update/pods", "blue/x"), False),
            (("v1", "apps", "update", "blue/x"), False),
        ),
    ),
    Case(
        "RF-07-account-in-the-matcher",
        "# Note: if A holds B, and B holds C, then A holds C; no depth limit here.\n\n"
        "p, builder, job, create\np, builder, job, run\n\n# builder cannot remove a job.\n\n"
        "p, job_owner, job, remove\np, job_owner, job, create\n\np, worker_owner, worker, start\n"
        "p, people_owner, person, give_role\np, audit_owner, login_log, list\n\n# people area\n# g, name, job_owner\n\n"
        "g, dana, lead\ng, dana-test, builder\n\ng, lead, job_owner\ng, lead, worker_owner\ng, lead, people_owner\n\n"
        "g, builder, worker_owner\ng, builder, audit_owner ",
        THREE.replace("r.act == p.act", 'r.act == p.act || r.sub == "boss"'),
        warned_in_model=("grants-without-rule",),
        asks=(
            (("dana", "person", "give_role"), True),
            (("dana-test", "worker", "start"), True),
            (("dana-test", "login_log", "list"), True),
            (("dana-test", "job", "remove"), False),
            (("lead", "job", "remove"), True),
            (("boss", "anything", "at_all"), True),
            (("Boss", "job", "remove"), False),
        ),
    ),
    Case(
        "RF-08-empty-member",
        "p, kim, *, keeper\np, lee, lee-set, holder\np, lee, *, caller\ng, look-refer, look\ng, look-refer, refer\n"
        "g, keeper, look-refer\ng, keeper, change\ng, holder, look-refer\ng, holder, change\ng, caller, look\n"
        "g2, lee-set, \ng2, lee-set, box-2\n",
        _model(
            "sub, obj, act",
            "sub, obj, act",
            'r.sub == p.sub && \\\n    g(p.act, r.act) && \\\n    (g2(p.obj, r.obj) || p.obj == "*")',
            roles="g = _, _\ng2 = _, _",
        ),
        refused=((11, "empty-field"),),
    ),
    Case(
        "RF-08-without-the-empty-member",
        "p, kim, *, keeper\np, lee, lee-set, holder\np, lee, *, caller\ng, look-refer, look\ng, look-refer, refer\n"
        "g, keeper, look-refer\ng, keeper, change\ng, holder, look-refer\ng, holder, change\ng, caller, look\n"
        "g2, lee-set, box-2\n",
        _model(
            "sub, obj, act",
            "sub, obj, act",
            'r.sub == p.sub && \\\n    g(p.act, r.act) && \\\n    (g2(p.obj, r.obj) || p.obj == "*")',
            roles="g = _, _\ng2 = _, _",
        ),
        asks=(
            (("lee", "box-2", "change"), True),
            (("lee", "box-3", "change"), False),
            (("lee", "", "change"), False),
            (("kim", "box-9", "change"), True),
            (("lee", "box-3", "look"), True),
        ),
    ),
    Case(
        "RF-09-account-in-the-matcher-with-tenants",
        "p, role:look, *, *, list-services\np, role:look, *, *, get-service\n\np, role:edit, *, *, list-services\n"
        "p, role:edit, *, *, get-service\np, role:edit, *, *, create-service\n\ng, keepers, role:edit, _\n"
        "g, keepers, role:edit, lab\n\ng, coders, role:look, _\ng, coders, role:look, lab\n\ng, robot1, coders, _\n"
        "g, robot1, coders, lab\n",
        _model(
            "sub, dom, obj, act",
            "sub, dom, obj, act",
            "g(r.sub, p.sub, r.dom) && globMatch(r.dom, p.dom) && globMatch(r.obj, p.obj) && r.act == p.act "
            '|| r.sub == "root-user"',
            roles="g = _, _, _",
        ),
        warned_in_model=("grants-without-rule",),
        asks=(
            (("robot1", "lab", "s1", "list-services"), True),
            (("robot1", "live", "s1", "list-services"), False),
            (("robot1", "_", "s1", "get-service"), True),
            (("robot1", "lab", "s1", "create-service"), False),
            (("keepers", "lab", "s1", "create-service"), True),
            (("robot1", "*", "s1", "list-services"), False),
            (("robot1", "lab", "s1/part", "list-services"), False),
            (("root-user", "nowhere", "x", "drop-all"), True),
        ),
    ),
    Case(
        "RF-11-rows-without-type",
        "chief, /cases, create\nmember, /cases, read\n",
        refused=((1, "unknown-row-type"), (2, "unknown-row-type")),
    ),
    Case(
        "RF-12-pasted-twice",
        "p, role:main/team_x, shelf-entry, read, allow\np, role:main/team_x, rule-entry, read, allow\n"
        "g, user:main/team_x/wren, role:main/team_x\n\np, role:main/team_x, shelf-entry, read, allow\n"
        "p, role:main/team_x, rule-entry, read, allow\ng, user:main/team_x/qa, role:main/team_y\n\n"
        "p, role:main/team_y-ui, bulk.load, use, allow\np, role:main/chiefs, addon-item, create, allow\n"
        "p, role:main/team_x, addons-item, create, allow",
        _model(
            "sub, obj, act",
            "sub, obj, act, eft",
            "g(r.sub, p.sub) && r.obj == p.obj && r.act == p.act",
            roles="g = _, _",
        ),
        warned=((5, "duplicate-row"), (6, "duplicate-row"), (7, "role-without-rules")),
        asks=(
            (("user:main/team_x/wren", "shelf-entry", "read"), True),
            (("user:main/team_x/wren", "addon-item", "create"), False),
            (("user:main/team_x/wren", "addons-item", "create"), True),
            (("user:main/team_x/qa", "bulk.load", "use"), False),
        ),
    ),
    Case(
        "RF-15-star-behind-a-letter",
        "p, keeper, ORG-NORTH, /api/memos*, (GET)|(POST)\np, looker, ORG-NORTH, /api/memos*, GET\n\n"
        "g, user-one, keeper, ORG-NORTH\ng, user-two, looker, ORG-NORTH",
        _model(
            "sub, dom, obj, act",
            "sub, dom, obj, act",
            "g(r.sub, p.sub, r.dom) && r.dom == p.dom && keyMatch2(r.obj, p.obj) && regexMatch(r.act, p.act)",
            roles="g = _, _, _",
        ),
        warned=((1, "no-anchor"), (1, "star-after-text"), (2, "no-anchor"), (2, "star-after-text")),
        # corrections narrow: what Casbin itself does not match ("/api/memos/7") stays denied
        asks=(
            (("user-two", "ORG-NORTH", "/api/memos", "GET"), True),
            (("user-two", "ORG-NORTH", "/api/memos/7", "GET"), False),
            (("user-two", "ORG-NORTH", "/api/memo", "GET"), False),
            (("user-two", "ORG-NORTH", "/api/memos", "GETALL"), False),
            (("user-one", "ORG-NORTH", "/api/memos", "POST"), True),
            (("user-one", "ORG-SOUTH", "/api/memos", "GET"), False),
        ),
    ),
    Case(
        "EV-01-text-after-the-star",
        "p, reader, github_*_read, call\n",
        THREE.replace("r.obj == p.obj", "keyMatch(r.obj, p.obj)"),
        refused=((1, "text-after-star"),),
    ),
    Case(
        "EV-03-characters-of-a-path",
        "p, u, /api/v1.0/users, call\np, u, /api/runs, call\np, u, /files/*, call\n",
        THREE.replace("r.obj == p.obj", "keyMatch2(r.obj, p.obj)"),
        warned=((1, "meta-character"),),
        asks=(
            (("u", "/api/v1.0/users", "call"), True),
            (("u", "/api/v1X0/users", "call"), False),
            (("u", "/api/runs", "call"), True),
            (("u", "/api/runs\n", "call"), False),
            (("u", "/files", "call"), False),
            (("u", "/files/", "call"), True),
            (("u", "/files/a", "call"), True),
            (("u", "/files/../admin", "call"), False),
        ),
    ),
    Case(
        "EV-05-star-as-domain",
        "p, admin, t1, bash, call\np, auditor, *, read_log, call\ng, ann, admin, *\ng, bea, auditor, t1\n",
        TENANTS,
        refused=((3, "domain"),),
    ),
    Case(
        "EV-05-star-as-name",
        "p, admin, t1, bash, call\np, auditor, *, read_log, call\ng, ann, admin, t1\ng, bea, auditor, t1\n",
        TENANTS,
        warned=((2, "literal-star"),),
        asks=(
            (("ann", "t1", "bash", "call"), True),
            (("ann", "t2", "bash", "call"), False),
            (("bea", "t2", "read_log", "call"), False),
            (("bea", "t1", "read_log", "call"), False),
            (("bea", "*", "read_log", "call"), False),
        ),
    ),
)
