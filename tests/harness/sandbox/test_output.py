"""What is kept of output: bounded, and without secrets, however the pieces come."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from remit.harness.sandbox.output import BoundedOutput


def collected(data: bytes, cuts: list[int], *, secrets: list[str], limit: int = 1 << 20) -> str:
    output = BoundedOutput(secrets, limit=limit)
    start = 0
    for cut in sorted(cuts):
        output.add(data[start : max(cut, start)])
        start = max(cut, start)
    output.add(data[start:])
    return output.text()


SECRETS = [
    "hunter2hunter2",
    "hunter2hunter2-and-more",
    "p\u00e4ssw\u00f6rter",
    "multi-line-one\nmulti-line-two",
    "short",
]
PIECES = st.sampled_from([*SECRETS, "hunter2", "hunter2-and", "multi-line-two", "x", "\n", "\u00e4"])


@given(st.lists(PIECES, max_size=12).map("".join), st.lists(st.integers(0, 200), max_size=12))
def test_masked_wherever_the_pieces_end(text: str, cuts: list[int]) -> None:
    shown = collected(text.encode(), cuts, secrets=SECRETS)
    for secret in ("hunter2hunter2", "p\u00e4ssw\u00f6rter", "multi-line-one", "multi-line-two"):
        assert secret not in shown
    assert shown == collected(text.encode(), [], secrets=SECRETS)
    if not any(secret in text for secret in SECRETS[:3]) and "multi-line" not in text:
        assert shown == text


def test_the_longer_of_two_secrets_goes_whole() -> None:
    assert collected(b"<hunter2hunter2-and-more>", [16], secrets=SECRETS) == "<***>"
    assert collected(b"<hunter2hunter2-and-less>", [16], secrets=SECRETS) == "<***-and-less>"


def test_short_values_are_shown() -> None:
    assert collected(b"short 1234567", [], secrets=["short", "1234567", ""]) == "short 1234567"


@given(st.binary(max_size=400), st.lists(st.integers(0, 400), max_size=8), st.integers(2, 120))
def test_bounded(data: bytes, cuts: list[int], limit: int) -> None:
    shown = collected(data, cuts, secrets=[], limit=limit)
    if len(data) <= limit // 2 * 2:
        assert shown == data.decode("utf-8", "replace")
    else:
        half = limit // 2
        note = f"\n[... {len(data) - 2 * half} bytes left out ...]\n"
        assert shown == data[:half].decode("utf-8", "replace") + note + data[-half:].decode("utf-8", "replace")


def test_a_secret_is_not_cut_where_output_is_dropped() -> None:
    secret = "hunter2hunter2"
    for before in range(60):
        shown = collected(
            b"-" * before + secret.encode() + b"-" * 100, list(range(0, 200, 3)), secrets=[secret], limit=60
        )
        assert "hunter2" not in shown
        assert "ter2" not in shown


def test_little_is_held_of_a_flood() -> None:
    output = BoundedOutput(limit=1000)
    for _ in range(1000):
        output.add(b"x" * 977)
    assert len(output._head) + sum(map(len, output._tail)) < 1000 + 977
    assert output.text().endswith("x" * 500)
    assert output.truncated
