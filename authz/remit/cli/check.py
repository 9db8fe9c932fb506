"""`remit check`: one decision."""

from __future__ import annotations

from remit.cli import console, options
from remit.cli.exits import Exit, exit_of


def check(
    request: options.Request,
    role: options.Role = None,
    user: options.User = None,
    attribute: options.Attributes = None,
    arg: options.Args = None,
    policy: options.Policy = None,
    style: options.Format = "text",
) -> Exit:
    """Decide one request, and name the rule.

    Ends with 0 for allow, 3 for deny, 4 for ask.
    """
    from remit.authz.tooling.report import decision_json
    from remit.authz.tooling.testrun import verdict
    from remit.cli.decision import say_decision
    from remit.cli.session import open_policy

    with open_policy(policy) as session:
        asked = session.request(request, role=role, user=user, attributes=attribute or (), args=arg or ())
        decision = session.enforcer.decide(asked)
    if style == "json":
        console.document(decision_json(asked, decision))
    else:
        say_decision(asked, decision)
    return exit_of(verdict(decision))
