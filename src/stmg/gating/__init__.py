"""Gating: finding a network's residual blocks, skipping them, and reusing features."""
