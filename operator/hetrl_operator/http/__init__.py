"""The operator's HTTP endpoints: health, metrics, and progress reports of coordinators."""
