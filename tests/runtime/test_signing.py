"""Signatures that nobody without the key can make, and the file in which the key lies."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.authz.errors import ConfigError
from remit.runtime.signing import KEY_VARIABLE, Signer, signer

KEY = bytes(range(32))
PARTS = st.lists(st.one_of(st.none(), st.text(alphabet=st.characters(codec=None), max_size=4)), max_size=4)


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("REMIT_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    signer.cache_clear()
    yield
    signer.cache_clear()


def test_what_is_signed_verifies() -> None:
    made = Signer(KEY)
    signature = made.sign("mark", "a", None, "b")
    assert len(signature) == 32
    assert made.verify(signature, "mark", "a", None, "b")
    assert Signer(KEY).sign("mark", "a", None, "b") == signature, "the same after a restart"


DIFFERENT: list[tuple[str, tuple[str | None, ...]]] = [
    ("another purpose", ("receipt", "a", "b")),
    ("another part", ("mark", "a", "c")),
    ("other order", ("mark", "b", "a")),
    ("one part less", ("mark", "a")),
    ("one part more", ("mark", "a", "b", "")),
    ("parts run together", ("mark", "ab")),
    ("cut elsewhere", ("mark", "", "ab")),
    ("nothing is not empty", ("mark", "a", "b", None)),
]


@pytest.mark.parametrize("parts", [c[1] for c in DIFFERENT], ids=[c[0] for c in DIFFERENT])
def test_anything_else_does_not(parts: tuple[str, ...]) -> None:
    made = Signer(KEY)
    assert not made.verify(made.sign("mark", "a", "b"), *parts)


@given(PARTS, PARTS)
def test_no_two_lists_are_confused(one: list[str | None], other: list[str | None]) -> None:
    made = Signer(KEY)
    assert (made.sign("p", *one) == made.sign("p", *other)) == (one == other)


@pytest.mark.parametrize("value", [None, 5, b"x", "", "0" * 32, "é" * 32, ["x"], {}, "0" * 10_000, True], ids=repr)
def test_what_stands_in_place_of_a_signature(value: Any) -> None:
    assert Signer(KEY).verify(value, "mark", "a") is False


def test_another_key_signs_otherwise() -> None:
    assert not Signer(KEY).verify(Signer(bytes(32)).sign("mark", "a"), "mark", "a")


def test_a_short_key() -> None:
    with pytest.raises(ValueError, match="at least 32 bytes, this one has 31"):
        Signer(bytes(31))


def key_file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "runtime.key"


def test_the_key_is_made_once_and_for_the_owner_alone(tmp_path: Path) -> None:
    signature = signer().sign("mark", "a")
    assert stat.S_IMODE(key_file(tmp_path).stat().st_mode) == 0o600
    assert len(key_file(tmp_path).read_bytes()) == 32
    assert [path.name for path in key_file(tmp_path).parent.iterdir()] == ["runtime.key"], "nothing is left beside it"
    signer.cache_clear()
    assert signer().verify(signature, "mark", "a"), "conversations keep their marks over a restart"


def test_processes_that_start_together_have_one_key(tmp_path: Path) -> None:
    def signature(_: int) -> str:
        return signer.__wrapped__().sign("mark", "a")

    with ThreadPoolExecutor(16) as pool:
        assert len(set(pool.map(signature, range(64)))) == 1


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o666], ids=oct)
def test_a_key_that_others_can_read(tmp_path: Path, mode: int) -> None:
    signer()
    key_file(tmp_path).chmod(mode)
    signer.cache_clear()
    with pytest.raises(ConfigError, match="open to others") as caught:
        signer()
    assert f"chmod 600 {key_file(tmp_path)}" in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"x" * 31, b"x" * 33], ids=["empty", "short", "long"])
def test_a_file_that_is_no_key(tmp_path: Path, content: bytes) -> None:
    key_file(tmp_path).parent.mkdir()
    key_file(tmp_path).write_bytes(content)
    key_file(tmp_path).chmod(0o600)
    with pytest.raises(ConfigError, match="bytes instead of 32"):
        signer()
    assert key_file(tmp_path).read_bytes() == content, "never replaced in silence"


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    with pytest.raises(ConfigError, match="cannot be used") as caught:
        signer()
    assert KEY_VARIABLE in str(caught.value)


def test_the_key_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, KEY.hex())
    assert signer().sign("mark", "a") == Signer(KEY).sign("mark", "a")
    assert not key_file(tmp_path).exists()


@pytest.mark.parametrize("text", ["", "00", "zz" * 32, KEY.hex()[:-2], "hunter2"], ids=repr)
def test_a_variable_that_is_no_key(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(KEY_VARIABLE, text)
    with pytest.raises(ConfigError, match="64 hexadecimal digits") as caught:
        signer()
    assert len(text) < 5 or text not in str(caught.value), "it may be a secret"
