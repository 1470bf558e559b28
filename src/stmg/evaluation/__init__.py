"""Evaluation: accuracy, cost and speed of streams beside the network on every frame."""
