"""Secrets that are known by their form, wherever they stand: one list for logs and for what the model is shown."""

from __future__ import annotations

from typing import Final

KNOWN_FORMS: Final = (
    r"(?:"
    r"(?:sk|pk|rk|ghp|gho|ghs|ghu|ghr|glpat|xox[abeoprs]|hf|npm|pypi|dop_v1|shpat)[-_][A-Za-z0-9_-]{12,}"
    r"|github_pat_\w{20,}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{12,}"
    r"|AIza[\w-]{20,}"
    r"|eyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*)?"
    r")"
)
"""Keys and tokens of well-known services, and JSON Web Tokens. A pattern without anchors and without names."""
