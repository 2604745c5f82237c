"""What the operator serves over HTTP: health, metrics, and progress reports of coordinators."""
