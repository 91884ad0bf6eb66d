"""The numbers: exact bits, fills, the float64 oracle, rounding conventions and the intervals they allow. See docs/accuracy.md."""
