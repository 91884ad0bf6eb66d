"""A conformance suite for RMSNorm and fused add + RMSNorm, and its pytest plugin.

Importing this package imports neither torch nor triton.
"""

__version__ = "0.1.0"
