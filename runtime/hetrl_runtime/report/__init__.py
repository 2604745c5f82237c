"""The report of a run: plots as PNG files and one HTML page that stands alone.

This package turns a run's records into pictures and a page. Coordinator and trainer measure;
nothing here talks to a process or imports torch.
"""
