"""Tests of other projects as data: their inputs, reference and tolerances, put to this suite's mutants.

Each is a re-implementation of ours from the published test file, with its commit; no code of theirs is here.
The inputs are case files like those of `cases/`; what is compared with what is in the module beside each.
`python -m conformance yardstick` measures them; docs/other_suites.md has the result and what differs.
"""
