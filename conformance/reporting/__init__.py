"""Result files, what follows from all verdicts together, the page and the summaries.

`conformance.report` is the way in.
"""
