"""Studies: what was measured, one question per file; rows are under ``results``."""
