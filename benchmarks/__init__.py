"""Ratio benchmarks: every figure is compared with something measured beside it, in the same run."""
