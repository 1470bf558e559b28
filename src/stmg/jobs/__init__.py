"""Jobs: many videos, on this machine or on a Ray cluster, each done once."""
