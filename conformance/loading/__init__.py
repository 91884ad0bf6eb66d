"""Reads case files: YAML with line numbers, checked values, expansion into runs.

`conformance.load` is the way in.
"""
