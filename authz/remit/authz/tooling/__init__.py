"""Operator's tools as pure functions: requests from text, policy tests, lint, reports. The command line is one caller."""
