"""What a picture of a plan shows, as values: machines, tasks, flows, colours."""
