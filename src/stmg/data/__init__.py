"""Data: labeled video from disk, or rendered from a seed."""
