"""Data of others, downloaded into a folder: one module for each kind of source."""
