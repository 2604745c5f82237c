"""Reports of a run: progress, step records, metrics, TensorBoard files."""
