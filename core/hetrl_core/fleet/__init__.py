"""The fleet as a frozen snapshot, and the catalogue of known GPU kinds."""
