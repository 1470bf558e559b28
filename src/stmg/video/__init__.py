"""Video input: sources, decoding, frames, labels and their overlays."""
