"""The content of a plan's picture, as values: machines, tasks, flows, colours."""
