"""Results out: overlay video, label images, records, timeline."""
