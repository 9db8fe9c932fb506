"""The policy evaluator of agent-os-kernel on one world. Runs in that package's own environment, without remit."""

from __future__ import annotations

import json
import sys

from benchmarks.floor import floor
from benchmarks.measure import paired
from benchmarks.worlds import world

try:
    from agent_os.policies.evaluator import PolicyEvaluator
    from agent_os.policies.schema import PolicyCondition, PolicyDefaults, PolicyDocument, PolicyRule
except ImportError as exc:
    print(exc, file=sys.stderr)
    sys.exit(3)


def main(size: str) -> dict[str, float]:
    """Its rules test one field and know no inheritance: role and tool become one key, and the caller names the role."""
    tested = world(size)
    rules = [
        PolicyRule(
            name=f"rule {number}",
            condition=PolicyCondition(field="key", operator="eq", value=f"{grant.role} {grant.tool}"),
            action=grant.effect,
            priority=int(grant.effect == "deny"),
        )
        for number, grant in enumerate(tested.grants)
    ]
    evaluator = PolicyEvaluator([PolicyDocument(name="bench", rules=rules, defaults=PolicyDefaults(action="deny"))])
    owner = {(grant.tool, grant.effect): grant.role for grant in tested.grants}

    def role_for(user: str, tool: str) -> str:
        line = tested.lineage(tested.users[user])
        for effect in ("deny", "allow"):
            if owner.get((tool, effect)) in line:
                return owner[tool, effect]
        return line[0]

    queries = tested.requests()
    contexts = [({"key": f"{role_for(q.user, q.tool)} {q.tool}"}, q in tested.allowed) for q in queries]
    for context, want in contexts:
        if evaluator.evaluate(context).allowed is not want:
            raise AssertionError(f"wrong about {context}")
    decide = floor(tested)
    few = contexts if size == "30" else contexts[:8]

    def subject() -> None:
        for context, _ in few:
            evaluator.evaluate(context)

    def by_floor() -> None:
        for user, tool in queries:
            decide(user, tool, "call")

    result = paired(subject, by_floor, calls=len(few), base_calls=len(queries))
    return {"ratio": result.ratio, "us": result.us}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
