"""The streaming core: motion, masks, levels, the state of a stream. It knows no PyTorch."""
