"""Outputs: overlay video, label images, records, timeline."""
