"""Streets rendered from a seed, with exact labels."""
