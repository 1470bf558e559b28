"""Gating: find a network's residual blocks, skip them, and reuse features."""
