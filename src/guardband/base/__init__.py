"""The foundations: arrays, files, limits, lazy imports, saved classes and workers."""
