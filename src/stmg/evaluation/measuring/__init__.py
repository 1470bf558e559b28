"""Measuring: accuracy, speed, latency and memory of streams. Nothing is imported here: memory.py counts imports."""
