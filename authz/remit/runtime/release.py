"""Canonical forms: what a declaration of settings, or a fingerprint, is made of."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def canonical_json(value: Any) -> str:
    """`value` as JSON with sorted keys and without blanks; other scripts than Latin are kept as they are.

    Raises:
        TypeError: Something in `value` has no JSON form.
        ValueError: A number in `value` is not finite.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical_hash(value: Any) -> str:
    """SHA-256 of `canonical_json(value)`, as 64 hexadecimal digits.

    Raises:
        TypeError: As `canonical_json`.
        ValueError: As `canonical_json`.
    """
    return hashlib.sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()
