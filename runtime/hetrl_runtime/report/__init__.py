"""The report of a run: plots as PNG files and one HTML page that stands alone.

Here belongs turning what a run has written into pictures and a page. Measuring is the
coordinator's and the trainer's; nothing here talks to a process or imports torch.
"""
