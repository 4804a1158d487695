"""Benchmarks: every performance and quality claim of the project comes from here."""
