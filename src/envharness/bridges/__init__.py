"""Bridges: one folder a benchmark, the only code that knows the benchmark's runtime."""
