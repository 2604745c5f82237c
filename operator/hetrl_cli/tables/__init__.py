"""Plans and simulated runs as text tables."""
