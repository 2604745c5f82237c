"""Selection among the finalists of a search: by playing them, and by price."""
