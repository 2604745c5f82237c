"""The job as frozen values: specification, algorithm, model architecture."""
