"""Measurements, beside the tests and no part of them: ratios within one run, on whatever machine it is."""
