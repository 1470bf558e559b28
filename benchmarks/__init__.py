"""Benchmarks: the runs behind BENCHMARKS.md (`python -m benchmarks`), and programs that measure one thing each."""
