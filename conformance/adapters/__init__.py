"""Adapters: how vendors' implementations are called, one file each, found by scanning.

A file has `NAMES`, the names that it declares, and a hook `conformance_implementations`, which imports the
vendor when it is called and raises `NotInstalled` where that fails. Adding a vendor is adding a file.
"""
