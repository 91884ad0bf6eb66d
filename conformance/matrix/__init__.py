"""The score matrix: every wrong and right implementation of the suite, asked every run, and what follows.

The quick score stops at the first failure. The matrix does not, so it can say which runs kill what, which
mutants are told apart by nothing, and which cases find nothing that others would not find too.

    recording  python -m conformance score --full       a matrix file, as it goes; it can be resumed
    telling    python -m conformance score --tell FILE  the numbers, and docs/score.md from a whole matrix
    quick      python -m conformance score              each mutant until it fails, the variants in rotation

A matrix file is JSON lines, see `lines`. It holds no message, no path, host or user name.
"""
