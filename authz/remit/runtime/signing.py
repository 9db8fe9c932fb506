"""Signatures over what the server writes into messages, so that a copy made by anybody else is worth nothing.

A read mark, a receipt or a hidden block travels in the conversation, where clients and tools can put things too. Each
carries a keyed digest of what it says and of where it belongs. The key lies in the state folder, readable by its owner
alone, so that conversations keep their marks over a restart; replicas share the folder or the environment variable.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import stat
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Final

from remit.authz.config import state_dir
from remit.authz.errors import ConfigError, Problem

KEY_VARIABLE: Final = "REMIT_RUNTIME_KEY"
KEY_BYTES: Final = 32
SIGNATURE_BYTES: Final = 16


class Signer:
    """Signs and checks with one key.

    Args:
        key: At least 32 bytes.
    """

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        if len(key) < KEY_BYTES:
            raise ValueError(f"a signing key has at least {KEY_BYTES} bytes, this one has {len(key)}")
        self._key = key[:64]

    def sign(self, purpose: str, *parts: str | None) -> str:
        """The signature of `parts` for `purpose`, as 32 hexadecimal digits. No two lists of parts are confused."""
        digest = blake2b(key=self._key, digest_size=SIGNATURE_BYTES)
        for part in (purpose, *parts):
            data = b"\x00" if part is None else b"\x01" + part.encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(8, "big") + data)
        return digest.hexdigest()

    def verify(self, signature: object, purpose: str, *parts: str | None) -> bool:
        """Whether `signature` is ours. Never raises, whatever is put in its place."""
        if not isinstance(signature, str) or not signature.isascii():
            return False
        return hmac.compare_digest(signature, self.sign(purpose, *parts))


@cache
def signer() -> Signer:
    """The signer of this deployment. The first call may read or make the key file.

    The key is ``REMIT_RUNTIME_KEY`` (64 hexadecimal digits) or the file ``runtime.key`` in the state folder.

    Raises:
        ConfigError: The variable is no key, or the file is no key, open to others, or cannot be made.
    """
    if (text := os.environ.get(KEY_VARIABLE)) is not None:
        try:
            return Signer(bytes.fromhex(text))
        except ValueError as exc:
            raise ConfigError(
                Problem(
                    KEY_VARIABLE,
                    0,
                    "is no signing key",
                    "set 64 hexadecimal digits, for example from "
                    "`python -c 'import secrets; print(secrets.token_hex(32))'`",
                    "signing-key",
                )
            ) from exc
    return Signer(_key_file(state_dir() / "runtime.key"))


def _key_file(path: Path) -> bytes:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            _make(path)
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            key = file.read(KEY_BYTES + 1)
    except OSError as exc:
        raise ConfigError(
            Problem(
                str(path),
                0,
                f"the signing key cannot be used: {exc.strerror}",
                "make REMIT_STATE_DIR a folder that this process can write, or set REMIT_RUNTIME_KEY",
                "signing-key",
            )
        ) from exc
    if mode & 0o077:
        raise ConfigError(
            Problem(
                str(path),
                0,
                f"the signing key is open to others (mode {mode:04o})",
                f"run chmod 600 {path}",
                "signing-key",
            )
        )
    if len(key) != KEY_BYTES:
        raise ConfigError(
            Problem(
                str(path),
                0,
                f"the signing key has {len(key)} bytes instead of {KEY_BYTES}",
                "delete the file; marks and receipts of old conversations become void",
                "signing-key",
            )
        )
    return key


def _make(path: Path) -> None:
    """Write a new key under another name first: a reader in another process must never see half of it."""
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        os.link(fresh, path)
    finally:
        fresh.unlink()
