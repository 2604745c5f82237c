"""The process in which a job's own reward code runs, and everything that it gives up."""
