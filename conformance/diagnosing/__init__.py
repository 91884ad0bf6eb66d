"""Why an output or a gradient is wrong: known wrong formulas tried on it, and which elements are affected.

`diagnosis.diagnose` is the way in for y, `gradients.diagnose_dx` and `diagnose_dweight` for the gradients;
`doubled_statistic` says what a backward did with a saved statistic.
"""
