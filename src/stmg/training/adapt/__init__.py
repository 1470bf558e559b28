"""Adapt: a corrector for a network, trained on a user's own video without labels."""
