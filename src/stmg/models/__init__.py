"""Models by name: cards, weights, exports, and the one way from a name to a segmenter."""
