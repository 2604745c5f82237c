"""The informer cache: objects as the watches show them, with our own pending writes on top."""
