"""Problems over rows that do not fit in memory, read block by block in every pass.

A source says where the rows are: :func:`from_parquet`, :func:`from_npy`, :func:`from_csv`,
:func:`from_dataset` (Arrow) and :func:`from_batches` (any function that yields arrays) make one;
estimators take it instead of `X` and `y`.  :class:`BlockProblem` is the problem over it, for
:func:`dpfast.solve`; it takes any :class:`Executor`, which is all that differs between a machine
that reads blocks from a disk and a cluster that holds them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dpfast.blocks._arrays import ArrayReader, BatchReader
from dpfast.blocks._arrow import CsvReader, DatasetReader, ParquetReader, Roles
from dpfast.blocks._contract import Block, Executor
from dpfast.blocks._dask import DaskBlocks
from dpfast.blocks._problem import BlockProblem
from dpfast.blocks._source import Piece, Reader, Source
from dpfast.rows import is_dask

__all__ = [
    "Block",
    "BlockProblem",
    "DaskBlocks",
    "Executor",
    "Piece",
    "Reader",
    "Source",
    "from_batches",
    "from_csv",
    "from_dask",
    "from_dataset",
    "from_npy",
    "from_parquet",
    "is_dask",
]


def from_npy(
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    groups: Any = None,
    block_rows: int | None = None,
    read_ahead: bool = True,
) -> Source:
    """A :class:`Source` of NumPy arrays: .npy files, memory maps, or arrays in memory.

    Parameters
    ----------
    X : path, array or SciPy sparse matrix of shape (n_samples, n_features)
        Files with rows one after another (C order) are read in pieces, others through a map.
        float32 stays float32.
    y : path or array of shape (n_samples,), optional
        Targets or labels; may be left out for predictions.
    sample_weight : path or array of shape (n_samples,), optional
    groups : path or array of shape (n_samples,), optional
        Whose row each is, a person's, say: exact ids, see
        :meth:`dpfast.estimators.LogisticRegression.fit`.  Rows of a group must lie side by side.
        They are read once here, to count the groups, whose number is public, and to refuse rows
        that lie apart.
    block_rows : int, optional
        Rows of a block, up to 1000 more where they have groups; None: 32 MiB of float64 entries.
        Two blocks are in memory at a time.
    read_ahead : bool, default=True
        Read the next block while one is worked on, in a thread.

    Raises
    ------
    TypeError, ValueError, OSError
        If an argument is not of the stated kind, or a file cannot be read.

    Examples
    --------
    >>> import numpy as np, dpfast
    >>> X = np.repeat([[1.0, 0.0], [0.0, 1.0]], 5000, axis=0)
    >>> y = np.repeat([1.0, -1.0], 5000)
    >>> source = dpfast.blocks.from_npy(X, y, block_rows=1000)
    >>> problem = dpfast.blocks.BlockProblem(source, "logistic", data_norm=1.0)
    >>> result = dpfast.solve(problem, "auto", dpfast.Budget(1.0, 1e-6))
    >>> len(source.sizes), bool(result.w[0] > result.w[1])
    (10, True)
    """
    return Source(ArrayReader(X, y, sample_weight, groups), block_rows, read_ahead)


def from_batches(
    open_batches: Callable[[], Iterable[Any]],
    *,
    n_features: int | None = None,
    n_samples: int | None = None,
    name: str | None = None,
    block_rows: int | None = None,
    read_ahead: bool = True,
) -> Source:
    """A :class:`Source` of rows that a function yields, for every format that is not known here.

    Parameters
    ----------
    open_batches : callable
        Returns a fresh iterator of tuples ``(X, y)``, ``(X, y, sample_weight)`` or ``(X, y,
        sample_weight, groups)`` at every call, of the same rows in the same order; `sample_weight`
        may be None.  Batches may have any number of rows; they are cut and joined to blocks, and
        may cut a group.  X is an array or a SciPy sparse matrix; groups are as for
        :func:`from_npy`.  Arrays may be filled anew for the next batch: they are copied.
    n_features : int, optional
        Checked against the first batch.
    n_samples : int, optional
        Number of rows, which is public; None: counted in one pass here.
    name : str, optional
        Name of the data, for messages and for checkpoints, which know of the data nothing else.
    block_rows, read_ahead
        As for :func:`from_npy`.  With `read_ahead` the function is run by a thread of its own.

    Raises
    ------
    TypeError, ValueError
        If an argument is not of the stated kind, or there are no rows.

    Examples
    --------
    >>> import numpy as np, dpfast
    >>> def batches():
    ...     for seed in range(20):
    ...         X = np.random.default_rng(seed).standard_normal((500, 3))
    ...         yield X, np.sign(X[:, 0])
    >>> source = dpfast.blocks.from_batches(batches, block_rows=2000)
    >>> source.n_samples, source.sizes
    (10000, (2000, 2000, 2000, 2000, 2000))
    """
    return Source(BatchReader(open_batches, n_features, n_samples, name), block_rows, read_ahead)


def from_parquet(
    path: Any,
    target: str | None = None,
    columns: Sequence[str] | None = None,
    *,
    sample_weight: str | None = None,
    groups: str | None = None,
    block_rows: int | None = None,
    read_ahead: bool = True,
) -> Source:
    """A :class:`Source` of Parquet files, through PyArrow (``pip install 'dpfast[parquet]'``).

    Parameters
    ----------
    path : path or sequence of paths
        Of a directory, all files that end in .parquet or .pq, in the order of their names.
        All files must have the same columns.
    target : str, optional
        Column of the targets or labels; may be left out for predictions.
    columns : sequence of str, optional
        Columns of X, in this order; None: all but the target, the weights and the groups, with a
        warning if one is named as ids are (``patient_id``).  They must hold numbers without missing
        values.  If all are float32 they stay so; others are read as float64.
    sample_weight : str, optional
        Column of the weights.
    groups : str, optional
        Column that says whose row each is, a person's, say, as exact ids.  Rows of a group must lie
        side by side; a group may begin in one row group or file and end in another.  The column is
        read once here, to count the groups, whose number is public, and to refuse rows that lie
        apart: sort such files by it.
    block_rows, read_ahead
        As for :func:`from_npy`.  Blocks need not agree with row groups.

    Raises
    ------
    dpfast.errors.DataError
        If columns are missing or of another kind, files differ, one is not Parquet, or the
        directory is a table of Delta Lake, whose files also hold rows that were deleted.
    ImportError, OSError, TypeError, ValueError
        As of other arguments; ValueError also if a file is there twice, by any name.
    """
    roles = Roles(target, columns, sample_weight, groups)
    return Source(ParquetReader(path, roles), block_rows, read_ahead)


def from_csv(
    path: Any,
    target: str | None = None,
    columns: Sequence[str] | None = None,
    *,
    sample_weight: str | None = None,
    groups: str | None = None,
    block_rows: int | None = None,
    read_ahead: bool = True,
) -> Source:
    """A :class:`Source` of a CSV file with header, by PyArrow (``pip install 'dpfast[parquet]'``).

    The file is read once to count the rows, whose number is public.  It is parsed anew in every
    pass, which is slow: for more than a few passes, convert it to Parquet.  Fields are separated by
    commas, the text is UTF-8.  A file of another form is a data set of Arrow, for
    :func:`from_dataset`::

        form = pyarrow.dataset.CsvFileFormat(
            pyarrow.csv.ParseOptions(delimiter=";"),
            convert_options=pyarrow.csv.ConvertOptions(decimal_point=","),
        )
        from_dataset(pyarrow.dataset.dataset(path, format=form), target="y")

    Parameters
    ----------
    path : path
        A name that ends in .gz, .bz2 or .zst is decompressed.
    target, columns, sample_weight, groups
        As for :func:`from_parquet`.  All columns but the target are read as float64, and the groups
        as texts.  Where names are numbers, `columns` must be given: they could be a record.
    block_rows, read_ahead
        As for :func:`from_npy`.

    Raises
    ------
    dpfast.errors.DataError
        If columns are missing, or a field is not a number.
    ImportError, OSError, TypeError, ValueError
    """
    roles = Roles(target, columns, sample_weight, groups)
    return Source(CsvReader(path, roles), block_rows, read_ahead)


def from_dataset(
    dataset: Any,
    target: str | None = None,
    columns: Sequence[str] | None = None,
    *,
    sample_weight: str | None = None,
    groups: str | None = None,
    block_rows: int | None = None,
    read_ahead: bool = True,
) -> Source:
    """A :class:`Source` of a :class:`pyarrow.dataset.Dataset`, in the order of its fragments.

    Parameters
    ----------
    dataset : pyarrow.dataset.Dataset
    target, columns, sample_weight, groups
        As for :func:`from_parquet`.
    block_rows, read_ahead
        As for :func:`from_npy`.

    Raises
    ------
    dpfast.errors.DataError
        If columns are missing or of another kind.
    ImportError, TypeError, ValueError
        As of other arguments; ValueError also if a file is there twice.
    """
    roles = Roles(target, columns, sample_weight, groups)
    return Source(DatasetReader(dataset, roles), block_rows, read_ahead)


def from_dask(
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
    *,
    client: Any = None,
    keep: bool = True,
    name: str | None = None,
) -> DaskBlocks:
    """:class:`DaskBlocks` of arrays or dataframes: a partition is a block, worked on where it is.

    Estimators call this by themselves when `fit` gets dask collections.  Workers and scheduler see
    raw rows and exact sums and must be trusted; noise is drawn on the client alone, after the sum,
    and the ledger is kept there.  Workers that are lost, tasks that are retried and partitions that
    are computed again change neither, nor the result.

    Parameters
    ----------
    X : dask array or dataframe of shape (n_samples, n_features)
        Of numbers, divided along the rows alone.  Lengths of partitions that are not known are
        counted here; the number of rows is public.
    y : dask array or series of shape (n_samples,), optional
        Targets or labels, divided like X; may be left out for predictions.
    sample_weight : dask array or series of shape (n_samples,), optional
    groups : dask array or series of shape (n_samples,), optional
        Whose row each is, a person's, say: exact ids.  All rows of a group must be in one
        partition, as ``frame.shuffle(on=...).persist()`` brings them (without ``persist`` dask
        shuffles every column anew, in another order); the groups are counted here, and their
        number is public, as is that of the partitions, while the number of rows is not.
    client : distributed.Client, optional
        None: the current one if there is one, else dask's scheduler on this machine.
    keep : bool, default=True
        With a client: the cluster holds the rows in memory, from here until the result of this
        function is deleted, and every partition's checksum is compared if a lost one is computed
        again.  False computes (reads) them in every pass, for data larger than the cluster.
    name : str, optional
        Name of the data, for checkpoints, which know of the data only this and the sizes.

    Raises
    ------
    ImportError
        If dask is not installed.
    TypeError, ValueError
        If the collections are not as stated.

    Examples
    --------
    With a cluster's client, or without one on this machine::

        import dask.array as da

        X = da.random.default_rng(0).standard_normal((10_000, 3), chunks=(2500, 3))
        source = dpfast.blocks.from_dask(X, da.sign(X[:, 0]))
        problem = dpfast.blocks.BlockProblem(source, "logistic", data_norm=2.0)
        result = dpfast.solve(problem, "auto", dpfast.Budget(1.0, 1e-6))
    """
    return DaskBlocks(X, y, sample_weight, groups, client, keep, name)
