"""The model in training, its optimizer, and its weights as bytes."""
