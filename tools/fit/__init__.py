"""Fits the estimator's constants to public measurements: see README.md."""
