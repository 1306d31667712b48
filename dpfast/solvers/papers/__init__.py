"""Solvers of papers: for comparison, and to reproduce their tables."""
