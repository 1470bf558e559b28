"""Training: plain functions over batches."""
