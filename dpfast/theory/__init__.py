"""Bounds from papers, re-derived: what a private method's error will be, from public constants."""
