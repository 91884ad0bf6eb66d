"""The numbers: exact bits, fills, the float64 oracle, rounding conventions and the intervals they allow.

docs/accuracy.md has the rule and its derivation.
"""
