"""Data: labelled video from disk or rendered from a seed."""
