"""How an implementation is found, its call recognised, tried and made.

`targets.load` is the way in; it runs in a worker.
"""
