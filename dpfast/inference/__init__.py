"""Standard errors, intervals and tests from a private estimate and its covariance.

Everything here is post-processing of what a fit has released.
"""

from dpfast.inference.estimates import Estimates
from dpfast.inference.summary import Summary

__all__ = ["Estimates", "Summary"]
