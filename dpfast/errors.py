"""Exceptions and warnings raised by dpfast.

Wrong arguments raise plain :class:`ValueError` or :class:`TypeError`; the classes here are for
conditions a caller may want to handle by name.
"""


class DpfastError(Exception):
    """Base class of the errors that are specific to dpfast."""


class BudgetExceeded(DpfastError):
    """A privacy event would take the ledger past its budget; nothing was spent by it."""


class UnsupportedEvent(DpfastError):
    """No accountant of the ledger can price a privacy event; nothing was spent by it."""


class CertificateNotReached(DpfastError):
    """The inner optimizer could not prove how close it is to the minimizer; nothing is released."""


class CheckpointError(DpfastError, ValueError):
    """A checkpoint is not one of the fit that is to go on; nothing was spent by trying."""


class GridOverflow(DpfastError, ValueError):
    """The noise is too small for the range of the query to be added exactly on one grid."""


class DataError(DpfastError, ValueError):
    """A data file or a table does not match its declared bounds, categories or columns."""


class ModelFileError(DpfastError, ValueError):
    """A model file is damaged, of another version, or not a dpfast model."""


class BudgetFileError(DpfastError, ValueError):
    """The file of a BudgetAccountant is damaged or gone, or belongs to another budget."""


class ConversionWarning(UserWarning):
    """Data had to be copied as a whole into a layout that the kernels read."""


class PrivacyLeakWarning(UserWarning):
    """Something that the guarantee takes as public was inferred from the private data."""


class UndeclaredValueWarning(UserWarning):
    """A table has values that its declaration does not know, or numbers outside their range."""


class QuestionableSettingWarning(UserWarning):
    """A setting that is allowed and makes a weak promise or a useless model."""


class RepeatedFitWarning(UserWarning):
    """Several fits, to the same people perhaps, which no accountant adds up."""
