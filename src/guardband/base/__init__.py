"""What everything stands on: arrays, files, limits, lazy imports, saved classes, and workers."""
