"""Video in: sources, decoding, frames, labels and how they are drawn."""
