"""Evaluation: collections, runs, measures, significance tests, and the comparison of systems."""
