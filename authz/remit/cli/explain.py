"""`remit explain`: the trace of one decision."""

from __future__ import annotations

from remit.authz.errors import ConfigError
from remit.authz.types import Explanation
from remit.cli import console, options
from remit.cli.exits import Exit, exit_of


def explain(
    request: options.Request,
    role: options.Role = None,
    user: options.User = None,
    attribute: options.Attributes = None,
    arg: options.Args = None,
    policy: options.Policy = None,
    style: options.Format = "text",
) -> Exit:
    """Show why a request is decided as it is.

    Prints the rules that took part, and the smallest changes that would allow the request. Ends with 0 for allow, 3 for
    deny, 4 for ask.
    """
    from remit.authz.provider import Explains
    from remit.authz.tooling.report import explanation_json
    from remit.authz.tooling.testrun import verdict
    from remit.authz.tooling.trace import traced
    from remit.cli.decision import say_decision
    from remit.cli.session import open_policy

    with open_policy(policy) as session:
        if not isinstance(session.provider, Explains):
            raise ConfigError(f"the provider {session.provider.name!r} cannot explain decisions; use `remit check`")
        asked = session.request(request, role=role, user=user, attributes=attribute or (), args=arg or ())
        decision = session.enforcer.decide(asked)
        trace = traced(session.provider.explain, asked, provider=session.provider.name)
    if verdict(trace.decision) != verdict(decision):
        console.complain(
            f"the trace says {verdict(trace.decision)}, but the decision is {verdict(decision)}; "
            f"report this to the authors of the provider {session.provider.name!r}"
        )
    if style == "json":
        console.document(explanation_json(trace, decision))
    else:
        say_decision(asked, decision)
        _say_trace(trace)
    return exit_of(verdict(decision))


def _say_trace(trace: Explanation) -> None:
    console.say("  asked as ", ", ".join(trace.subjects) or "nobody")
    console.say("rules")
    if trace.rules:
        rows = [(r.policy_id, r.effect, r.outcome, r.text, r.note) for r in trace.rules]
        console.table(("rule", "effect", "outcome", "text", "note"), rows)
    else:
        console.say("  none is about this request")
    if trace.changes:
        console.say("it would be allowed with")
        for change in trace.changes:
            console.say(f"  {change}")
    said = {reason.message for reason in trace.decision.reasons}
    for note in trace.notes:
        if note not in said:
            console.say(f"note: {note}")
