"""Why an output is wrong: known wrong formulas tried on it, and which elements are affected.

`diagnosis.diagnose` is the way in.
"""
