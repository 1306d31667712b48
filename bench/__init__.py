"""Benchmarks of dpfast: ``python -m bench`` from the root of the repository; see README.md."""
