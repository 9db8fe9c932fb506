"""Operator's tools as pure functions: requests from text, policy tests, lint, reports. `remit.cli` is one caller."""
