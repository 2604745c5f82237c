"""CustomResourceDefinitions and the reference page, generated from the pydantic models."""
