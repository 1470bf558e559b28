"""Evaluation: what was gained and what was lost."""
