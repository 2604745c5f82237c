"""The journal of a run, its compaction, and the state that it rebuilds."""
