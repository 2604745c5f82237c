"""The display of a local run: progress, charts, a live panel or plain lines."""
