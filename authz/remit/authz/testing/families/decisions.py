"""The decision tables: who may do what, written out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from remit.authz.testing.cases import Body, add
from remit.authz.testing.session import Session
from remit.authz.testing.world import ACCENTED, Answer, Question

Row = tuple[str, Question, Answer]

TOOLS: Final[tuple[Row, ...]] = (
    ("reader-search", Question("reader", "search"), "allow"),
    ("reader-read", Question("reader", "read_file"), "allow"),
    ("reader-accented", Question("reader", ACCENTED), "allow"),
    ("reader-write", Question("reader", "write_file"), "deny"),
    ("reader-wipe", Question("reader", "wipe_disk"), "deny"),
    ("reader-unlisted-tool", Question("reader", "brand_new_tool"), "deny"),
    ("writer-search", Question("writer", "search"), "allow"),
    ("writer-read", Question("writer", "read_file"), "allow"),
    ("writer-write", Question("writer", "write_file"), "allow"),
    ("writer-wipe", Question("writer", "wipe_disk"), "deny"),
    ("writer-accented", Question("writer", ACCENTED), "deny"),
    ("writer-unlisted-tool", Question("writer", "brand_new_tool"), "deny"),
    ("admin-write", Question("admin", "write_file"), "allow"),
    ("admin-wipe-deny-beats-allow", Question("admin", "wipe_disk"), "deny"),
    ("admin-unlisted-tool", Question("admin", "brand_new_tool"), "deny"),
    ("blocked-read", Question("blocked", "read_file"), "allow"),
    ("blocked-search-deny-beats-allow", Question("blocked", "search"), "deny"),
    ("blocked-write", Question("blocked", "write_file"), "deny"),
    ("harmless-arguments", Question("reader", "search", args={"q": "x", "n": 3}), "allow"),
    ("arguments-open-no-door", Question("reader", "write_file", args={"path": "/tmp/x"}), "deny"),  # noqa: S108
    ("mcp-names-are-just-names", Question("reader", "mcp__files__search"), "deny"),
)

OTHER: Final[tuple[tuple[str, Question, Answer, str], ...]] = (
    ("model-use", Question("reader", "small", "model", "use"), "allow", "model"),
    ("model-list", Question("reader", "large", "model", "list"), "allow", "model"),
    ("model-listed-but-not-usable", Question("reader", "large", "model", "use"), "deny", "model"),
    ("model-writer-large", Question("writer", "large", "model", "use"), "allow", "model"),
    ("model-admin-without-rules", Question("admin", "small", "model", "use"), "deny", "model"),
    ("model-unlisted", Question("writer", "gigantic", "model", "use"), "deny", "model"),
    ("route-read", Question("reader", "threads:read", "route", "read"), "allow", "route"),
    ("route-write", Question("writer", "threads:write", "route", "write"), "allow", "route"),
    ("route-write-reader", Question("reader", "threads:write", "route", "write"), "deny", "route"),
    ("route-verb-of-another-target", Question("reader", "threads:write", "route", "read"), "deny", "route"),
    ("route-unlisted", Question("writer", "threads:delete", "route", "delete"), "deny", "route"),
)

ASKS: Final[tuple[Row, ...]] = (
    ("writer-mail", Question("writer", "send_mail"), "ask"),
    ("admin-mail-ask-beats-allow", Question("admin", "send_mail"), "ask"),
    ("blocked-mail-deny-beats-ask", Question("blocked", "send_mail"), "deny"),
    ("reader-mail", Question("reader", "send_mail"), "deny"),
)

REFUSALS: Final[tuple[tuple[str, Question], ...]] = (
    # another action, another resource
    ("action-of-another-name", Question("reader", "search", action="delete")),
    ("action-in-upper-case", Question("reader", "search", action="CALL")),
    ("action-star", Question("reader", "search", action="*")),
    ("resource-of-another-name", Question("reader", "search", resource="skill", action="activate")),
    ("resource-in-the-plural", Question("reader", "search", resource="tools")),
    ("resource-in-upper-case", Question("reader", "search", resource="TOOL")),
    ("resource-unheard-of", Question("writer", "write_file", resource="galaxy")),
    ("resource-star", Question("reader", "search", resource="*")),
    ("tool-name-as-a-model", Question("reader", "search", resource="model", action="use")),
    ("model-name-as-a-tool", Question("reader", "small")),
    # roles that do not exist
    ("role-unknown", Question("intruder", "search")),
    ("role-missing", Question(None, "search")),
    ("role-missing-and-user", Question(None, "search", user=None)),
    ("role-star", Question("*", "search")),
    ("role-in-upper-case", Question("READER", "search")),
    ("role-capitalised", Question("Reader", "search")),
    ("role-with-a-cyrillic-letter", Question("r\u0435ader", "search")),
    ("role-in-full-width-letters", Question("\uff52\uff45\uff41\uff44\uff45\uff52", "search")),
    ("role-with-a-prefix", Question("role:reader", "search")),
    ("role-of-a-user", Question("user:u-1", "search")),
    ("role-list", Question("reader,admin", "search")),
    ("role-cut-short", Question("read", "search")),
    ("role-too-long", Question("readers", "search")),
    ("role-of-a-thousand-letters", Question("reader" * 1000, "search")),
    ("role-named-like-an-attribute", Question("__class__", "search")),
    # claims that are no roles
    ("user-called-like-a-role", Question("reader", "write_file", user="admin")),
    ("user-called-like-a-writer", Question("reader", "write_file", user="writer")),
    ("user-called-like-a-prefixed-role", Question("reader", "write_file", user="role:writer")),
    ("user-called-like-a-role-without-role", Question(None, "write_file", user="writer")),
    ("internal-is-no-role", Question("reader", "write_file", is_internal=True)),
    ("attributes-are-no-roles", Question("reader", "write_file", attributes={"role": "writer", "roles": ["writer"]})),
    ("arguments-are-no-roles", Question("reader", "write_file", args={"role": "writer", "user_role": "writer"})),
    (
        "context-is-no-role",
        Question(
            "reader", "write_file", extra={"role": "writer", "user_role": "writer", "principal": {"role": "writer"}}
        ),
    ),
    ("context-is-no-permit", Question("reader", "write_file", extra={"allow": True, "is_internal": True})),
)


def expecting(question: Question, expected: Answer) -> Body:
    """The case that every door answers `expected`."""

    def body(s: Session) -> Iterator[str]:
        return s.expect(question, expected)

    return body


def refusing(question: Question) -> Body:
    """The case that no door allows or asks."""

    def body(s: Session) -> Iterator[str]:
        return s.expect_refusal(question)

    return body


for _id, _question, _expected in TOOLS:
    add(f"decisions/{_id}", f"{_question}: {_expected}", expecting(_question, _expected))
for _id, _question, _expected, _resource in OTHER:
    add(f"decisions/{_id}", f"{_question}: {_expected}", expecting(_question, _expected), needs=[_resource])
for _id, _question, _expected in ASKS:
    add(f"decisions/{_id}", f"{_question}: {_expected}", expecting(_question, _expected), needs=["asks"])
for _id, _question in REFUSALS:
    add(f"decisions/{_id}", f"{_question}: never allowed", refusing(_question))
