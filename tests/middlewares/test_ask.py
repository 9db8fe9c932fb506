"""Ask: one call waits for a person, and the answer counts for that very call, once."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import ValidationError
from tests.support.agents import STYLES, agent, answers, code, run
from tests.support.policies import allow, ask, deny
from tests.support.scripted import call, calls

from remit.authz import Principal, pop_outcome
from remit.middlewares import Approvals

GINA = {"user_id": "gina"}
APPROVE = {"type": "approve"}
REJECT = {"type": "reject"}


def edit(name: str, **args: Any) -> dict[str, Any]:
    return {"type": "edit", "edited_action": {"name": name, "args": args}}


def mailbox() -> tuple[list[Any], list[tuple[Any, ...]]]:
    sent: list[tuple[Any, ...]] = []

    @tool
    def send_email(to: str, copies: int = 1) -> str:
        """Send an e-mail."""
        sent.append((to, copies))
        return "sent"

    @tool
    def search(query: str) -> str:
        """Search."""
        sent.append(("search", query))
        return "found"

    return [send_email, search], sent


def thread() -> dict[str, Any]:
    return {"configurable": {"thread_id": str(uuid.uuid4())}}


def pending(graph: Any, config: Any) -> list[Any]:
    """The interrupts that wait for an answer."""
    return list(graph.get_state(config).interrupts)


def mail(to: str = "bob", id: str = "call_1", **args: Any) -> dict[str, Any]:
    return call("send_email", {"to": to, **args}, id)


@pytest.mark.parametrize("style", STYLES)
class TestEveryStyle:
    async def test_question_and_approval(self, style: str, policy: Any) -> None:
        """The question has LangChain's shape; an approved call runs once and its outcome is *allowed*."""
        world = policy(ask("guest", "send_email"))
        tools, sent = mailbox()
        graph, model = agent(world.enforcer, tools, calls(mail(copies="2")), checkpointer=InMemorySaver())
        config = thread()

        await run(graph, style, context={"user_id": "gina"}, config=config)
        (question,) = pending(graph, config)

        assert sent == []
        assert set(question.value) == {"type", "tool_call_id", "name", "args", "description", "ticket"}
        assert question.value["type"] == "tool_approval"
        assert question.value["tool_call_id"] == "call_1"
        assert question.value["name"] == "send_email"
        assert question.value["args"] == {"to": "bob", "copies": 2}
        assert {branch["properties"]["type"]["const"] for branch in _branches(question.response_schema)} == {
            "approve",
            "reject",
            "edit",
        }
        context = {"user_id": "gina"}
        state = await run(graph, style, Command(resume=APPROVE), context=context, config=config)
        assert sent == [("bob", 2)]
        assert answers(state)["call_1"].content == "sent"
        assert [(o.decision, o.reason_codes) for o in pop_outcome(context, "call_1")] == [
            ("allowed", ("authz.approved",))
        ]
        assert pending(graph, config) == []
        assert model.bound == [["send_email"], ["send_email"]]

    async def test_rejection(self, style: str, policy: Any) -> None:
        """A rejected call does not run; the model reads that a person said no, and why."""
        world = policy(ask("guest", "send_email"))
        tools, sent = mailbox()
        graph, _ = agent(world.enforcer, tools, calls(mail()), checkpointer=InMemorySaver())
        config = thread()

        await run(graph, style, context=GINA, config=config)
        answer = {"type": "reject", "message": "not today"}
        state = await run(graph, style, Command(resume=answer), context=GINA, config=config)

        assert sent == []
        message = answers(state)["call_1"]
        assert (message.status, code(message)) == ("error", "authz.rejected")
        assert "not today" in str(message.content)

    async def test_siblings_run_once(self, style: str, policy: Any) -> None:
        """Three parallel calls, one asked: the others run at once and not again on resume."""
        world = policy(ask("guest", "send_email"), allow("guest", "search"))
        tools, sent = mailbox()
        turn = calls(call("search", {"query": "1"}, "a"), mail(id="b"), call("search", {"query": "2"}, "c"))
        graph, _ = agent(world.enforcer, tools, turn, checkpointer=InMemorySaver())
        config = thread()

        await run(graph, style, context=GINA, config=config)
        assert sorted(sent) == [("search", "1"), ("search", "2")]
        await run(graph, style, Command(resume=APPROVE), context=GINA, config=config)
        assert sorted(sent) == [("bob", 1), ("search", "1"), ("search", "2")]

    async def test_two_questions_answered_one_at_a_time(self, style: str, policy: Any) -> None:
        """Answers go by interrupt id; each releases its own call and nothing else."""
        world = policy(ask("guest", "send_email"))
        tools, sent = mailbox()
        graph, _ = agent(world.enforcer, tools, calls(mail("a", "1"), mail("b", "2")), checkpointer=InMemorySaver())
        config = thread()

        await run(graph, style, context=GINA, config=config)
        by_name = {one.value["args"]["to"]: one.id for one in pending(graph, config)}
        await run(graph, style, Command(resume={by_name["b"]: APPROVE}), context=GINA, config=config)
        assert sent == [("b", 1)]
        state = await run(graph, style, Command(resume={by_name["a"]: REJECT}), context=GINA, config=config)
        assert sent == [("b", 1)]
        assert code(answers(state)["1"]) == "authz.rejected"

    @pytest.mark.parametrize(
        ("rows", "answer", "sent_to", "reason"),
        [
            pytest.param([ask("guest", "*")], edit("send_email", to="eve"), [("eve", 1)], None, id="same-rule"),
            pytest.param(
                [ask("guest", "*", "r.ctx.args.to == 'bob'"), allow("guest", "*", "r.ctx.args.to != 'bob'")],
                edit("send_email", to="eve"),
                [("eve", 1)],
                None,
                id="edited-to-allowed",
            ),
            pytest.param(
                [ask("guest", "*"), deny("guest", "*", "r.ctx.args.to == 'eve'")],
                edit("send_email", to="eve"),
                [],
                "authz.denied",
                id="edited-to-denied",
            ),
        ],
    )
    async def test_an_edited_call_is_decided_again(
        self, style: str, policy: Any, rows: Any, answer: Any, sent_to: Any, reason: str | None
    ) -> None:
        """Under the same rule an edit is its own approval; a deny stays a deny. The model is told what ran instead."""
        world = policy(*rows)
        tools, sent = mailbox()
        graph, _ = agent(world.enforcer, tools, calls(mail()), checkpointer=InMemorySaver())
        config = thread()

        await run(graph, style, context=GINA, config=config)
        state = await run(graph, style, Command(resume=answer), context=GINA, config=config)

        assert sent == sent_to
        message = answers(state)["call_1"]
        assert code(message) == reason
        if reason is None:
            assert "reviewer changed this call" in str(message.content)
            assert '"eve"' in str(message.content)

    async def test_an_edit_under_another_rule_is_asked_about_again(self, style: str, policy: Any) -> None:
        """The second question shows the edited call; its own answer decides, the first one is not lost."""
        world = policy(
            ask("guest", "*", "r.ctx.args.to == 'bob'"),
            ask("guest", "*", "r.ctx.args.to == 'eve'"),
            allow("guest", "x"),
        )
        tools, sent = mailbox()
        graph, _ = agent(world.enforcer, tools, calls(mail()), checkpointer=InMemorySaver())
        config = thread()

        await run(graph, style, context=GINA, config=config)
        first = pending(graph, config)[0]
        await run(graph, style, Command(resume=edit("send_email", to="eve")), context=GINA, config=config)
        assert sent == []
        second = pending(graph, config)[0]
        assert (second.value["args"]["to"], second.id == first.id) == ("eve", False)
        await run(graph, style, Command(resume=APPROVE), context=GINA, config=config)
        assert sent == [("eve", 1)]

    async def test_resume_by_another_identity(self, style: str, policy: Any) -> None:
        """An admin who resumes a guest's run does not turn it into an admin's run."""
        world = policy(ask("guest", "send_email"), allow("admin", "*"), allow("guest", "search"))
        tools, sent = mailbox()
        then = calls(call("search", {"query": "as admin"}, "later"))
        graph, model = agent(world.enforcer, tools, calls(mail()), then, checkpointer=InMemorySaver())
        config = thread()
        boss = {"user_id": "root", "user_role": "admin"}

        await run(graph, style, context=GINA, config=config)
        state = await run(graph, style, Command(resume=APPROVE), context=boss, config=config)

        assert sent == []
        assert code(answers(state)["call_1"]) == "authz.identity_changed"
        assert code(answers(state)["later"]) == "authz.identity_changed"
        assert model.bound == [["send_email", "search"], [], []]

    async def test_resume_without_ids_by_another_role(self, style: str, policy: Any) -> None:
        """Where the role is all that is known of a caller, another role is another caller."""
        world = policy(ask("guest", "send_email"), allow("admin", "*"))
        tools, sent = mailbox()
        graph, _ = agent(world.enforcer, tools, calls(mail()), checkpointer=InMemorySaver())
        config = thread()

        await run(graph, style, context={"user_role": "guest"}, config=config)
        state = await run(graph, style, Command(resume=APPROVE), context={"user_role": "admin"}, config=config)

        assert sent == []
        assert code(answers(state)["call_1"]) == "authz.identity_changed"

    async def test_deny_after_the_question(self, style: str, policy: Any) -> None:
        """The policy is reloaded while the question waits and now denies: the approval does not help."""
        world = policy(ask("guest", "send_email"))
        tools, sent = mailbox()
        graph, _ = agent(world.enforcer, tools, calls(mail()), checkpointer=InMemorySaver())
        config = thread()

        await run(graph, style, context=GINA, config=config)
        world.rewrite(deny("guest", "send_email"), allow("guest", "search"))
        state = await run(graph, style, Command(resume=APPROVE), context=GINA, config=config)

        assert sent == []
        assert code(answers(state)["call_1"]) == "authz.denied"

    @pytest.mark.parametrize(("answer", "runs"), [(APPROVE, True), (REJECT, False)], ids=["approve", "reject"])
    async def test_allow_after_the_question(self, style: str, policy: Any, answer: Any, runs: bool) -> None:
        """The policy no longer asks when the answer comes: a rejection still counts."""
        world = policy(ask("guest", "send_email"))
        tools, sent = mailbox()
        graph, _ = agent(world.enforcer, tools, calls(mail()), checkpointer=InMemorySaver())
        config = thread()

        await run(graph, style, context=GINA, config=config)
        world.rewrite(allow("guest", "send_email"))
        await run(graph, style, Command(resume=answer), context=GINA, config=config)

        assert bool(sent) is runs

    async def test_a_changed_line_number_keeps_the_approval(self, style: str, policy: Any) -> None:
        """An unrelated edit of the policy does not void what waits."""
        world = policy(ask("guest", "send_email"))
        tools, sent = mailbox()
        graph, _ = agent(world.enforcer, tools, calls(mail()), checkpointer=InMemorySaver())
        config = thread()

        await run(graph, style, context=GINA, config=config)
        world.rewrite(allow("guest", "search"), ask("guest", "send_email"))
        await run(graph, style, Command(resume=APPROVE), context=GINA, config=config)

        assert sent == [("bob", 1)]

    async def test_a_bad_answer_saves_nothing(self, style: str, policy: Any) -> None:
        """An answer of another shape raises; the question stays and a good answer works."""
        world = policy(ask("guest", "send_email"))
        tools, sent = mailbox()
        graph, _ = agent(world.enforcer, tools, calls(mail()), checkpointer=InMemorySaver())
        config = thread()

        await run(graph, style, context=GINA, config=config)
        for bad in ("yes", {"type": "maybe"}, edit("search", query="x"), edit("send_email", to=["a"])):
            with pytest.raises(ValidationError):
                await run(graph, style, Command(resume=bad), context=GINA, config=config)
        assert sent == []
        await run(graph, style, Command(resume=APPROVE), context=GINA, config=config)
        assert sent == [("bob", 1)]

    async def test_an_approval_is_used_once(self, style: str, policy: Any) -> None:
        """Going back to the approved point asks again, and an old answer is not taken a second time."""
        world = policy(ask("guest", "send_email"))
        tools, sent = mailbox()
        graph, _ = agent(world.enforcer, tools, calls(mail()), checkpointer=InMemorySaver())
        config = thread()
        await run(graph, style, context=GINA, config=config)
        asked_at = graph.get_state(config).config
        await run(graph, style, Command(resume=APPROVE), context=GINA, config=config)
        assert sent == [("bob", 1)]

        await run(graph, style, Command(resume=APPROVE), context=GINA, config=asked_at)
        assert sent == [("bob", 1)]


class TestWhoAndWhen:
    async def test_an_old_question_cannot_be_answered(self, policy: Any) -> None:
        world = policy(ask("guest", "send_email"))
        tools, sent = mailbox()
        graph, _ = agent(
            world.enforcer,
            tools,
            calls(mail()),
            checkpointer=InMemorySaver(),
            approvals=Approvals(ttl_seconds=0.0),
        )
        config = thread()

        await run(graph, "ainvoke", context=GINA, config=config)
        state = await run(graph, "ainvoke", Command(resume=APPROVE), context=GINA, config=config)

        assert sent == []
        assert code(answers(state)["call_1"]) == "authz.approval_expired"

    @pytest.mark.parametrize(
        ("who", "by_requester", "reason"),
        [
            (Principal("boss", role="manager"), False, None),
            (Principal("gina", role="guest"), False, "authz.approver_is_requester"),
            (Principal("gina", role="manager"), True, None),
            (Principal("mallory", role="guest"), False, "authz.approver_denied"),
            (None, False, "authz.approver_unknown"),
        ],
        ids=["manager", "self", "self-permitted", "without-right", "nobody"],
    )
    @pytest.mark.parametrize("style", ["invoke", "ainvoke"])
    async def test_who_may_answer(
        self, policy: Any, style: str, who: Principal | None, by_requester: bool, reason: str | None
    ) -> None:
        """With an `approver`, the one who answered needs ``approval:decide`` and is not the requester."""
        world = policy(
            ask("guest", "send_email"), ("p", "role:manager", "approval", "send_email", "decide", "allow", "")
        )
        tools, sent = mailbox()
        approvals = Approvals(approver=lambda runtime: who, by_requester=by_requester)
        graph, _ = agent(world.enforcer, tools, calls(mail()), checkpointer=InMemorySaver(), approvals=approvals)
        config = thread()

        await run(graph, style, context=GINA, config=config)
        state = await run(graph, style, Command(resume=APPROVE), context=GINA, config=config)

        assert code(answers(state)["call_1"]) == reason
        assert bool(sent) is (reason is None)

    @pytest.mark.parametrize(
        ("options", "context"),
        [
            pytest.param({}, {}, id="no-checkpointer"),
            pytest.param({"checkpointer": True}, {"non_interactive": True}, id="non-interactive-run"),
            pytest.param({"checkpointer": True, "approvals": Approvals(interactive=False)}, {}, id="non-interactive"),
        ],
    )
    async def test_nobody_to_ask(self, policy: Any, options: Any, context: Any) -> None:
        world = policy(ask("guest", "send_email"))
        tools, sent = mailbox()
        if options.get("checkpointer"):
            options = {**options, "checkpointer": InMemorySaver()}
        graph, _ = agent(world.enforcer, tools, calls(mail()), **options)

        state = await run(graph, "ainvoke", context={**GINA, **context}, config=thread())

        assert sent == []
        assert code(answers(state)["call_1"]) == "authz.ask_unanswerable"


def _branches(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The decisions that a response schema offers."""
    return [schema["$defs"][branch["$ref"].rpartition("/")[2]] for branch in schema["oneOf"]]
