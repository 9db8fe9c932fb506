"""Explicit guardrails: gates beside the policy, asked after it about every tool call."""
