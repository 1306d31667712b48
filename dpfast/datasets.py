"""Data that comes with the package or is made up."""

from __future__ import annotations

import gzip
import math
from importlib import resources
from os import PathLike
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from dpfast._validation import check_choice, check_integer

# Public bounds of the features: from the design of the study and the definition of each variable,
# never from the values.  The reasons are given in RANDHIE_DESCRIPTION.
_RANDHIE_BOUNDS: dict[str, tuple[float, float]] = {
    "lncoins": (0.0, math.log(101.0)),
    "idp": (0.0, 1.0),
    "lpi": (0.0, math.log(2000.0)),
    "fmde": (0.0, math.log(4000.0)),
    "physlm": (0.0, 1.0),
    "disea": (0.0, 60.0),
    "hlthg": (0.0, 1.0),
    "hlthf": (0.0, 1.0),
    "hlthp": (0.0, 1.0),
}

RANDHIE_DESCRIPTION = """\
RAND Health Insurance Experiment: outpatient visits
===================================================

20,190 person-years, 9 features. In the experiment (United States, 1974 to 1982) families were
assigned at random to insurance plans that differed in what they had to pay themselves. One row is
one person in one year. A person has up to five rows, so a guarantee per row protects one
person-year, not everything about one person.

Target
------
mdvis    number of outpatient visits to a medical doctor in the year. target="any_visit" gives 1
         if there was at least one visit and 0 otherwise; target="visits" gives the count.

Features, with their public bounds
----------------------------------
lncoins  ln(coinsurance + 1); coinsurance is the share of the bill that the family pays, in
         percent. [0, ln 101], because a share is between 0 and 100 percent.
idp      1 if the plan has a deductible for each person, else 0. [0, 1], an indicator.
lpi      ln(max(1, participation incentive)); the incentive is a yearly payment in dollars that
         made up for the most a family could lose by taking part. [0, ln 2000]: a family's loss was
         limited by its maximum expenditure of at most 1,000 dollars; twice that is a generous cap.
fmde     0 if idp = 1, else ln(max(1, MDE / (0.01 coinsurance))); MDE is the family's maximum
         expenditure in dollars. [0, ln 4000], because the MDE was at most 1,000 dollars and the
         smallest coinsurance other than 0 was 25 percent.
physlm   1 if the person has a physical limitation, else 0; a proportion where the answer was
         imputed. [0, 1].
disea    index of chronic diseases. [0, 60], a round figure: larger values are cut to 60.
hlthg    1 if self-rated health is good, else 0. [0, 1], an indicator.
hlthf    1 if self-rated health is fair, else 0. [0, 1], an indicator.
hlthp    1 if self-rated health is poor, else 0. [0, 1], an indicator.
         (Self-rated health is excellent where hlthg, hlthf and hlthp are all 0.)

The guarantee of a model does not rest on the bounds being right: values outside are cut to them.

Origin
------
Collected by the RAND Corporation. Public domain. This selection of variables was used in
A. C. Cameron and P. K. Trivedi, Microeconometrics: Methods and Applications, Cambridge University
Press, 2005, section 20.3, and is distributed with statsmodels.
"""


@overload
def load_randhie(*, target: str = ..., return_X_y: Literal[False] = ...) -> Bunch: ...


@overload
def load_randhie(
    *, target: str = ..., return_X_y: Literal[True]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]: ...


def load_randhie(
    *, target: str = "any_visit", return_X_y: bool = False
) -> Bunch | tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Load the RAND Health Insurance Experiment: who saw a doctor, and how often.

    Parameters
    ----------
    target : {"any_visit", "visits"}, default="any_visit"
        ``"any_visit"``: 1 if the person saw a doctor in the year, else 0. ``"visits"``: the number
        of visits.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    sklearn.utils.Bunch
        With these entries:

        - ``data``: ndarray of shape (20190, 9), float64.
        - ``target``: ndarray of shape (20190,), int64.
        - ``feature_names``: list of str.
        - ``target_names``: list of str, ``["no_visit", "visit"]``, or ``["mdvis"]`` for the count.
        - ``classes``: ``(0, 1)``, public, negative class first; None for the count.
        - ``bounds``: dict of str to (float, float). Public bounds of the features in column order,
          taken from the design of the study and not from the data.
        - ``DESCR``: str. Origin, meaning of each column and the reason of each bound.

    Raises
    ------
    TypeError, ValueError
        If `target` is not one of the two names.

    Examples
    --------
    >>> from dpfast.datasets import load_randhie
    >>> data = load_randhie()
    >>> data.data.shape, data.classes
    ((20190, 9), (0, 1))
    >>> data.bounds["fmde"]
    (0.0, 8.294049640102028)
    """
    check_choice("target", target, ("any_visit", "visits"))
    file = resources.files("dpfast").joinpath("data", "randhie.csv.gz")
    lines = gzip.decompress(file.read_bytes()).decode("ascii").splitlines()
    names = lines[0].split(",")
    table = np.loadtxt(lines[1:], delimiter=",")
    data = np.ascontiguousarray(table[:, 1:])
    visits = table[:, 0].astype(np.int64)

    labels: dict[str, Any]
    if target == "any_visit":
        labels = {
            "target": (visits > 0).astype(np.int64),
            "target_names": ["no_visit", "visit"],
            "classes": (0, 1),
        }
    else:
        labels = {"target": visits, "target_names": [names[0]], "classes": None}
    if return_X_y:
        return data, labels["target"]
    return Bunch(
        data=data,
        feature_names=names[1:],
        bounds=dict(_RANDHIE_BOUNDS),
        DESCR=RANDHIE_DESCRIPTION,
        **labels,
    )


# Numbers in a line of Lee & Kifer's files, the label included.
_IPUMS_WIDTHS = {53: "IPUMS-BR", 58: "IPUMS-US"}

_IPUMS_DESCRIPTION = """\
Census rows of IPUMS-International, as coded by Lee and Kifer (2018)
====================================================================

Is a person's income above 300 dollars a month (Brazil, 38,000 rows, 52 features) or 25,000 dollars
a year (United States, 40,000 rows, 57 features)? Categories are 0/1 columns, numbers as they are.

The terms of use of IPUMS do not allow these data to be passed on, so that dpfast comes without them
and downloads nothing. Who registers at https://international.ipums.org may extract and use them.

The columns have no names and no declared ranges in these files: state `data_norm`, or ranges, from
what the variables of your extract mean. Ranges that are read off the rows are not private.
"""


def load_ipums(
    path: str | PathLike[str], *, return_X_y: bool = False
) -> Bunch | tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Load census rows in the coding of Lee & Kifer 2018, from a file that you have.

    IPUMS does not allow its data to be passed on: this reads a file, and fetches none.

    Parameters
    ----------
    path : str or path-like
        A row a line, numbers separated by blanks or commas, no header line, the label 0 or 1 last:
        53 numbers (Brazil) or 58 (United States). May be compressed by gzip (``.gz``).
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    sklearn.utils.Bunch
        With these entries:

        - ``data``: ndarray of shape (n_samples, 52 or 57), float64.
        - ``target``: ndarray of shape (n_samples,), int64, 0 or 1.
        - ``name``: ``"IPUMS-BR"`` or ``"IPUMS-US"``.
        - ``classes``: ``(0, 1)``, public, negative class first.
        - ``bounds``: None: the files do not say what may be in a column.
        - ``DESCR``: str.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such file, or it is not of this form.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dpfast.datasets import load_ipums
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "rows.dat"
    ...     _ = file.write_text("1 " * 52 + "0\\n" + "0 " * 52 + "1\\n")
    ...     data = load_ipums(file)
    >>> data.name, data.data.shape, data.target.tolist()
    ('IPUMS-BR', (2, 52), [0, 1])
    """
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(
            f"path must be a file of IPUMS rows; {str(file)!r} is none. They may not be passed on: "
            "extract them at https://international.ipums.org."
        )
    opener = gzip.open if file.suffix == ".gz" else open
    with opener(file, "rt", encoding="utf-8") as stream:
        lines = (line.replace(",", " ") for line in stream)
        try:
            table = np.loadtxt(lines, ndmin=2)
        except ValueError as error:
            raise ValueError(f"path must hold rows of numbers and no header: {error}.") from None
    if table.shape[1] not in _IPUMS_WIDTHS:
        raise ValueError(
            "path must hold 53 (Brazil) or 58 (United States) numbers a line, the label last; got "
            f"{table.shape[1]}."
        )
    if not np.isfinite(table).all() or not np.isin(table[:, -1], (0.0, 1.0)).all():
        raise ValueError("path must hold finite numbers, and the last of a line must be 0 or 1.")
    data, target = np.ascontiguousarray(table[:, :-1]), table[:, -1].astype(np.int64)
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        target=target,
        name=_IPUMS_WIDTHS[table.shape[1]],
        classes=(0, 1),
        bounds=None,
        DESCR=_IPUMS_DESCRIPTION,
    )


def make_uniform_classification(
    n_samples: int = 100_000, n_features: int = 20, *, seed: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Separable classes on the unit cube, as in the experiments of Kuru et al. 2020.

    Features are uniform on [0, 1], so that rows have an l1 norm of at most `n_features`; labels are
    the signs of a linear function with standard normal coefficients.

    Parameters
    ----------
    n_samples, n_features : int
    seed : int, default=0

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)
        -1 and +1.

    Examples
    --------
    >>> from dpfast.datasets import make_uniform_classification
    >>> X, y = make_uniform_classification(100, 3)
    >>> X.shape, bool(0 <= X.min() and X.max() <= 1), set(y.tolist()) <= {-1.0, 1.0}
    ((100, 3), True, True)
    """
    check_integer("n_samples", n_samples, low=1)
    check_integer("n_features", n_features, low=1)
    rng = np.random.default_rng(check_integer("seed", seed, low=0))
    X = rng.random((n_samples, n_features))
    return X, np.where(X @ rng.standard_normal(n_features) > 0.0, 1.0, -1.0)
