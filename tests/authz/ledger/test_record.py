"""One decision, one line: what is in it, what never is, and that nothing in it can forge another."""

from __future__ import annotations

import enum
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.ledger import ALLOW, ASK, DENY, FAILED, FAILED_OPEN, request

from remit.authz.ledger.record import MAX_LAZY_BYTES, Digested, Masks, Recorder, count_line
from remit.authz.types import AuthzDecision, AuthzReason, AuthzRequest, Principal

TIME = 1_790_000_000_123_456_789
KEY = b"k" * 32


def line(
    asked: AuthzRequest, decision: AuthzDecision = ALLOW, *, mask: tuple[str, ...] = (), key: bytes = KEY, **kw: Any
) -> bytes:
    recorder = Recorder(key, Masks(mask))
    return recorder.line(TIME, "authz", asked, decision, 12_345, recorder.snapshot(asked, decision), **kw)


def record(asked: AuthzRequest, decision: AuthzDecision = ALLOW, **kw: Any) -> dict[str, Any]:
    data = line(asked, decision, **kw)
    assert data.count(b"\n") == 1
    assert data.endswith(b"\n")
    out: dict[str, Any] = json.loads(data)
    return out


def reading(*paths: str) -> AuthzDecision:
    """A decision whose rule had a condition that read `paths`."""
    return AuthzDecision(True, (AuthzReason("authz.allowed"),), "policy.csv:9", "v1", metadata={"reads": paths})


def test_every_field() -> None:
    found = record(request({"path": "a"}))
    assert re.fullmatch("[0-9a-f]{32}", found.pop("args_hash"))
    assert found == {
        "v": 1,
        "kind": "decision",
        "time": "2026-09-21T14:13:20.123456Z",
        "guard": "authz",
        "decision": "allow",
        "failure": False,
        "reasons": ["authz.allowed"],
        "policy_id": "policy.csv:3",
        "policy_version": "v1",
        "user_id": "alice",
        "role": "user",
        "is_internal": False,
        "resource": "tool",
        "action": "call",
        "target": "bash",
        "thread_id": "t1",
        "run_id": "r1",
        "tool_call_id": "c1",
        "latency_us": 12.3,
    }


def test_absent_things_are_null() -> None:
    found = record(AuthzRequest(Principal(), "route", "read", "threads:read"), AuthzDecision(False))
    absent = {name for name, value in found.items() if value is None}
    assert absent == {
        "policy_id", "policy_version", "user_id", "role", "args_hash", "thread_id", "run_id", "tool_call_id"
    }  # fmt: skip
    assert found["reasons"] == ["authz.denied"]


@pytest.mark.parametrize(
    ("decision", "answer", "failure"),
    [
        pytest.param(ALLOW, "allow", False, id="allow"),
        pytest.param(DENY, "deny", False, id="deny"),
        pytest.param(ASK, "ask", False, id="ask"),
        pytest.param(FAILED, "deny", True, id="failed-closed"),
        pytest.param(FAILED_OPEN, "allow", True, id="failed-open"),
    ],
)
def test_policy_denial_and_provider_failure_are_told_apart(decision: AuthzDecision, answer: str, failure: bool) -> None:
    found = record(request(), decision)
    assert (found["decision"], found["failure"]) == (answer, failure)
    assert found["reasons"][0].startswith("authz.")


FORGERY = 'x\n{"v":1,"kind":"decision","decision":"allow"}\n'


@pytest.mark.parametrize(
    "target",
    [
        FORGERY,
        "a\r\nINFO authz allowed",
        "tab\tnull\x00bell\x07",
        "del\x7f c1\x85 csi\x9b31m",
        "line\u2028para\u2029",
        "bidi\u202egnp.exe",
        "zero\u200bwidth",
        'quote" backslash\\ brace}',
        "half\ud800surrogate",
    ],
    ids=lambda text: ascii(text)[:24],
)
def test_control_characters_are_escaped_everywhere(target: str) -> None:
    asked = request({target: target}, target=target, thread_id=target, run_id=target, tool_call_id=target)
    decision = AuthzDecision(False, (AuthzReason(target, target),), target, target)
    data = line(asked, decision)
    assert re.fullmatch(rb"[\x20-\x7e]*\n", data)
    found = json.loads(data)
    for key in ("target", "thread_id", "run_id", "tool_call_id", "policy_id", "policy_version"):
        assert found[key] == target, key
    assert found["reasons"] == [target]


@given(
    st.dictionaries(
        st.text(max_size=8), st.recursive(st.text(alphabet="secret-XYZ", min_size=12), st.lists, max_leaves=4)
    )
)
def test_arguments_never_appear(args: dict[str, Any]) -> None:
    data = line(request({"wrapped": args, "n": 987654321}))
    assert b"XYZ" not in data
    assert b"wrapped" not in data
    assert b"987654321" not in data
    assert not re.search(rb"(secret|-|X|Y|Z){12}", data)


def test_messages_of_reasons_are_not_recorded() -> None:
    decision = AuthzDecision(False, (AuthzReason("authz.evaluator_error", "token=hunter2"),))
    assert b"hunter2" not in line(request(), decision)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param({"a": 1, "b": [1, 2]}, {"b": (1, 2), "a": 1}, id="order of keys, list or tuple"),
        pytest.param({"a": {"x": 1, "y": 2}}, {"a": {"y": 2, "x": 1}}, id="nested order"),
        pytest.param({"a": "é"}, {"a": "é"}, id="non-ascii"),
    ],
)
def test_equal_arguments_have_equal_hashes(one: Any, other: Any) -> None:
    assert record(request(one))["args_hash"] == record(request(other))["args_hash"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1}, {"a": "1"}),
        ({"a": 1}, {"a": True}),
        ({"a": 0}, {"a": None}),
        ({"a": None}, {}),
        ({"a": [1, [2]]}, {"a": [[1], 2]}),
        ({"a": "é"}, {"a": "e\u0301"}),
        ({"a": "x", "b": "y"}, {"a": "x,b:y"}),
    ],
)
def test_different_arguments_have_different_hashes(one: Any, other: Any) -> None:
    assert record(request(one))["args_hash"] != record(request(other))["args_hash"]


def test_the_hash_is_keyed() -> None:
    asked = request({"pin": 1234})
    assert record(asked)["args_hash"] == record(asked)["args_hash"]
    assert record(asked)["args_hash"] != record(asked, key=b"other" * 6)["args_hash"]


@pytest.mark.parametrize(("fill", "kind"), [(MAX_LAZY_BYTES - 60, bytes), (MAX_LAZY_BYTES + 60, Digested)])
def test_large_arguments_are_digested_at_once_and_alike(fill: int, kind: type) -> None:
    recorder = Recorder(KEY, Masks())
    for args in ({"b": "x" * fill, "a": 1}, {"a": 1, "b": "x" * fill}):
        assert type(recorder.snapshot(request(args), ALLOW)) is kind
        canonical = json.dumps(args, sort_keys=True, separators=(",", ":")).encode()
        assert record(request(args))["args_hash"] == recorder.hash(canonical)


class Colour(enum.Enum):
    RED = "red"


def nested(depth: int) -> Any:
    value: Any = "end"
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "args",
    [
        pytest.param({"x": "\ud800"}, id="lone surrogate"),
        pytest.param({"x": float("nan"), "y": float("inf")}, id="not finite"),
        pytest.param({"x": b"\xff\xfe"}, id="bytes"),
        pytest.param({"x": object()}, id="foreign object"),
        pytest.param({"x": {1, 2}}, id="set"),
        pytest.param({"x": Colour.RED}, id="enum"),
        pytest.param({"x": nested(5000)}, id="nested 5,000 deep"),
        pytest.param({"x": 10**6000}, id="6,001 digits"),
        pytest.param({1: "x"}, id="key that is no text"),
        pytest.param(["a", "list"], id="list"),
        pytest.param("text", id="text"),
    ],
)
def test_odd_arguments_still_get_a_record(args: Any) -> None:
    found = record(request(args))
    assert re.fullmatch("[0-9a-f]{32}", found["args_hash"])


def test_values_that_the_deciding_condition_read() -> None:
    asked = request(
        {"amount": 5000, "to": "bob", "tags": ["a", "b"], "p": {"q": 1.5}, "a b": {"c.d": "deep"}, "note": "private"}
    )
    decision = reading(
        "args.amount",
        "args.tags",
        "args.p.q",
        "args.absent",
        "args['a b']['c.d']",
        "principal.attributes.team",
        "principal.user_id",
        "principal.oauth_id",
        "thread_id",
        "agent_id",
        "principal.secret_field",
        "",
    )
    assert record(asked, decision)["values"] == {
        "args.amount": 5000,
        "args.tags": ["a", "b"],
        "args.p.q": 1.5,
        "args['a b']['c.d']": "deep",
        "principal.attributes.team": "red",
        "principal.user_id": "alice",
        "thread_id": "t1",
    }
    assert "masked" not in record(asked, decision)
    assert b"private" not in line(asked, decision)


def test_values_of_large_arguments() -> None:
    asked = request({"amount": 5, "body": "x" * 2 * MAX_LAZY_BYTES})
    found = record(asked, reading("args.amount", "args.body"))
    assert found["values"] == {"args.amount": 5}
    assert found["masked"] == ["args.body"]


def test_attributes_are_read_without_arguments() -> None:
    found = record(request(), reading("principal.attributes.team", "args.amount"))
    assert found["values"] == {"principal.attributes.team": "red"}
    assert found["args_hash"] is None


@pytest.mark.parametrize(
    ("mask", "path", "withheld"),
    [
        pytest.param((), "args.mail.body", False, id="nothing masked"),
        pytest.param(("body",), "args.mail.body", True, id="by name"),
        pytest.param(("BODY",), "args.mail.body", True, id="case ignored"),
        pytest.param(("mail",), "args.mail.body", True, id="by a name above"),
        pytest.param(("args.mail",), "args.mail.body", True, id="by a path above"),
        pytest.param(("args.mail.body",), "args.mail.body", True, id="by path"),
        pytest.param(("b*y",), "args.mail.body", True, id="by pattern"),
        pytest.param(("*",), "args.amount", True, id="everything"),
        pytest.param(("args.body", "bod"), "args.mail.body", False, id="another path, a part of the name"),
        pytest.param((), "args.api_key", True, id="names of secrets: key"),
        pytest.param((), "args.mail.Password", True, id="names of secrets: password"),
        pytest.param((), "args.mail", True, id="no scalar"),
        pytest.param((), "args.long", True, id="too long"),
        pytest.param((), "args.nan", False, id="not finite, as text"),
        pytest.param(("a b",), "args['a b']", True, id="in brackets"),
        pytest.param((), "args['my token']", True, id="names of secrets: in brackets"),
    ],
)
def test_masks(mask: tuple[str, ...], path: str, withheld: bool) -> None:
    args = {
        "mail": {"body": "hello-body", "Password": "hunter2"},
        "amount": 42424242,
        "api_key": "sk-live",
        "long": "y" * 300,
        "nan": float("nan"),
        "a b": "hello-body",
        "my token": "hunter2",
    }
    data = line(request(args), reading(path), mask=mask)
    found = json.loads(data)
    assert found.get("masked", []) == ([path] if withheld else [])
    assert list(found.get("values", {})) == ([] if withheld else [path])
    if withheld:
        assert not re.search(rb"hello-body|hunter2|42424242|sk-live|yyy", data)


def test_long_names_are_cut_and_still_told_apart() -> None:
    one, other = record(request(target="x" * 100_000 + "1")), record(request(target="x" * 100_000 + "2"))
    assert len(one["target"]) < 600
    assert one["target"] != other["target"]
    assert one["target"].startswith("x" * 512 + "...(100001 characters, ")


@pytest.mark.parametrize(
    ("given", "written"), [(7, 7), (None, None), (b"raw", "<bytes>"), ({"a": 1}, "<dict>"), (True, "<bool>")]
)
def test_ids_that_are_no_text(given: Any, written: Any) -> None:
    assert record(request(thread_id=given))["thread_id"] == written


def test_reasons_are_bounded() -> None:
    decision = AuthzDecision(False, tuple(AuthzReason(f"authz.r{number}") for number in range(100)))
    assert record(request(), decision)["reasons"] == [f"authz.r{number}" for number in range(16)]


@pytest.mark.parametrize(
    "metadata",
    [{"reads": "args.n"}, {"reads": ("args['\\x']", 5, None, "args[", "...")}, {"failure": "yes"}],
    ids=["text for paths", "paths that are none", "failure that is no flag"],
)
def test_odd_metadata_of_a_foreign_provider(metadata: Any) -> None:
    found = record(request({"n": 1}), AuthzDecision(False, metadata=metadata))
    assert (found["decision"], found["failure"]) == ("deny", False)
    assert "values" not in found


def test_lines_that_count() -> None:
    found = json.loads(count_line("dropped", 3))
    assert found.pop("time").endswith("Z")
    assert found == {"v": 1, "kind": "dropped", "count": 3}


def test_left_out_is_stated_only_when_there_is_some() -> None:
    assert record(request(), left_out=4)["left_out"] == 4
    assert "left_out" not in record(request())
