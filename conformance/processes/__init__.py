"""Worker processes: starting, talking, calling, guarding.

`crew` and `isolate` are the suite's side, `serve` the worker's.
"""
