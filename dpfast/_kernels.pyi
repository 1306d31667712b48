"""Types of the compiled extension; tests/test_kernels.py checks that no name is missing."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

_F64 = NDArray[np.float64]
_F32 = NDArray[np.float32]

class LayoutError(ValueError): ...

class LossSpec:
    def __init__(self, id: int, parameter: float = ..., width: float = ...) -> None: ...
    def constants(self) -> tuple[float, float, float]: ...
    def target_range(self) -> tuple[float, float]: ...
    def points(self, margin: _F64, target: _F64) -> tuple[_F64, _F64, _F64]: ...

class _Rows:
    """What rows of all layouts have."""

    n_samples: int
    n_features: int
    dim: int
    intercept: float
    def set_weight(self, weight: _F64 | None) -> None: ...
    def set_row_scale(self, row_scale: _F64 | None) -> None: ...
    def set_inverse_norm(self, inverse_norm: _F32 | None, consistent: bool = ...) -> None: ...
    def row_norms(self, start: int, stop: int, out: _F64) -> None: ...
    def margins(self, start: int, stop: int, w: _F64, out: _F64) -> None: ...
    def gradient(
        self,
        start: int,
        stop: int,
        loss: LossSpec,
        w: _F64,
        clip_norm: float,
        loss_clip: float,
        out: _F64,
    ) -> float: ...
    def objective(
        self, start: int, stop: int, loss: LossSpec, w: _F64, loss_clip: float
    ) -> float: ...

class DenseRows(_Rows):
    def __init__(
        self, x: _F64 | _F32, target: _F64, intercept: float = ..., alike: bool = ...
    ) -> None: ...
    def curvature_rows(
        self, start: int, stop: int, loss: LossSpec, w: _F64, out: _F64, sign: int = ...
    ) -> None: ...

class CsrRows(_Rows):
    n_stored: int
    nbytes: int
    def __init__(
        self,
        indptr: NDArray[np.int32] | NDArray[np.int64],
        indices: NDArray[np.int32] | NDArray[np.int64] | NDArray[np.uint16],
        data: _F64 | _F32 | None,
        n_features: int,
        target: _F64,
        intercept: float = ...,
        compact: bool = ...,
        sound: bool = ...,
    ) -> None: ...
    def add_hessian(self, start: int, stop: int, loss: LossSpec, w: _F64, out: _F64) -> None: ...
    def entries(
        self, start: int, stop: int
    ) -> tuple[NDArray[np.integer[Any]], NDArray[np.integer[Any]], _F64]: ...

class CodedParts:
    n_samples: int
    n_features: int
    n_levels: int
    nbytes: int
    plain: bool
    entries_of_levels: tuple[NDArray[np.intp], NDArray[np.intp], _F64]
    numbers: list[tuple[int, int, NDArray[Any]]]
    def __init__(
        self,
        parts: list[
            tuple[
                NDArray[Any],
                tuple[int, NDArray[np.int64], NDArray[np.int32], _F64] | None,
            ]
        ],
    ) -> None: ...
    def entries(
        self, start: int, stop: int
    ) -> tuple[NDArray[np.int64], NDArray[np.integer[Any]], _F64]: ...
    def table(self, w: _F64) -> _F64: ...
    def fold(self, table: _F64) -> _F64: ...

class CodedRows(CsrRows):
    parts: CodedParts
    def __init__(
        self, parts: CodedParts, start: int, stop: int, target: _F64, intercept: float = ...
    ) -> None: ...
    def gather(self, start: int, stop: int, table: _F64) -> _F64: ...
    def numbers(self, start: int, stop: int) -> list[tuple[int, int, _F64]]: ...
    def scaled(self, start: int, stop: int) -> NDArray[np.bool_]: ...
    def scatter(self, start: int, stop: int, s: _F64) -> _F64: ...

class Stream:
    def __init__(self, key: bytes | None = ...) -> None: ...
    def rekey(self, key: bytes | None = ...) -> None: ...
    def fill_uint64(self, out: NDArray[np.uint64]) -> None: ...
    def fill_discrete_gaussian(self, scale: int, out: NDArray[np.int64]) -> None: ...
    def fill_discrete_laplace(self, scale: int, out: NDArray[np.int64]) -> None: ...
    def fill_gaussian(self, out: _F64) -> None: ...
    def fill_l2_laplace(self, scale: float, out: _F64) -> None: ...
    def noisy_max(self, selection: int, scale: int, scores: NDArray[np.int64]) -> int: ...

def sgd_epoch(
    rows: DenseRows | CsrRows,
    loss: LossSpec,
    w: _F64,
    indices: NDArray[np.int64],
    step: float | _F64,
    *,
    alpha: float = ...,
    w_radius: float = ...,
    snapshot_derivative: _F64 | None = ...,
    snapshot_gradient: _F64 | None = ...,
    average: _F64 | None = ...,
    average_weight: _F64 | None = ...,
) -> None: ...
def katyusha_epoch(
    rows: DenseRows | CsrRows,
    loss: LossSpec,
    z: _F64,
    y: _F64,
    average: _F64,
    average_scale: _F64,
    indices: NDArray[np.int64],
    *,
    alpha: float,
    smoothness: float,
    tau1: float,
    snapshot: _F64,
    snapshot_gradient: _F64,
    snapshot_margin: _F64,
    snapshot_derivative: _F64,
    w_radius: float = ...,
) -> None: ...
def row_sum(rows: DenseRows | CsrRows, start: int, stop: int, s: _F64, out: _F64) -> None: ...
def tilted_sum(
    rows: DenseRows | CsrRows,
    start: int,
    stop: int,
    loss: LossSpec,
    tilt: float,
    w: _F64,
    target: _F64 | None,
    out: _F64,
) -> tuple[float, float]: ...
def shifted_sum(
    rows: DenseRows | CsrRows,
    start: int,
    stop: int,
    loss: LossSpec,
    shift: float,
    rounding: float,
    w: _F64,
    out: _F64,
) -> tuple[float, float]: ...
def multinomial_gradient(
    rows: DenseRows | CsrRows,
    start: int,
    stop: int,
    label: _F64,
    w: _F64,
    clip_norm: float,
    out: _F64,
) -> None: ...

class RowGroups:
    n_groups: int
    n_samples: int
    longest: int
    start: NDArray[np.int64]
    gram: _F64
    def __init__(
        self,
        start: NDArray[np.int64],
        gram_start: NDArray[np.int64],
        transform: _F64 | None = ...,
    ) -> None: ...
    def set_products(self, first: int, last: int, z: _F64) -> None: ...

def group_gradient(
    rows: DenseRows | CsrRows,
    start: int,
    groups: RowGroups,
    first: int,
    last: int,
    loss: LossSpec | None,
    label: _F64 | None,
    w: _F64,
    clip: dict[str, float],
    out: _F64,
) -> float: ...
def group_addition_depth(n: int, longest: int) -> int: ...
def weighted_gram_block(
    rows: DenseRows | CsrRows, start: int, stop: int, weight: _F64, out: _F64
) -> None: ...
def affine_rows(
    rows: CsrRows, start: int, stop: int, factor: _F64, shift: _F64, out: _F64, squares: _F64
) -> None: ...
def affine_rows_float(
    rows: DenseRows, start: int, stop: int, factor: _F64, shift: _F64, out: _F32
) -> None: ...

class RowMap:
    columns: int
    def __init__(
        self,
        transform: _F64 | None = None,
        *,
        factor: _F64 | None = None,
        shift: _F64 | None = None,
    ) -> None: ...

def coordinates(
    rows: DenseRows,
    start: int,
    stop: int,
    to: RowMap,
    squares: _F64,
    out: _F64 | None = None,
) -> None: ...
def gram(
    rows: DenseRows,
    start: int,
    stop: int,
    to: RowMap,
    radius: float,
    share: _F64 | None,
    out: _F64,
) -> None: ...
def column_counts(
    rows: DenseRows | CsrRows,
    start: int,
    stop: int,
    slot: NDArray[np.intp],
    low: _F64,
    per_bin: _F64,
    share: _F64 | None,
    out: _F64,
) -> None: ...
def part_sums(
    rows: DenseRows | CsrRows,
    start: int,
    stop: int,
    factor: _F64,
    shift: _F64,
    radius: float,
    share: _F64 | None,
    out: _F64,
) -> None: ...
def shortening(
    rows: CsrRows, start: int, stop: int, factor: _F64, shift: _F64, radius: float, out: _F64
) -> None: ...
def quadratic_forms(rows: CsrRows, start: int, stop: int, matrix: _F64, out: _F64) -> None: ...
def draw_batch(
    stream: Stream, sampling: str, n: int, batch: int, capacity: int
) -> NDArray[np.int64]: ...
def private_epoch(
    rows: DenseRows | CsrRows,
    loss: LossSpec,
    w: _F64,
    step: float | _F64,
    *,
    sampling: str,
    noise: str,
    stream: Stream | None = ...,
    n_steps: int | None = ...,
    batch: int = ...,
    capacity: int = ...,
    divisor: float | None = ...,
    indices: NDArray[np.int64] | None = ...,
    batch_start: NDArray[np.int64] | None = ...,
    stddev: float = ...,
    grid: float = ...,
    scale: int = ...,
    given_noise: _F64 | None = ...,
    alpha: float = ...,
    clip_norm: float = ...,
    w_radius: float = ...,
    momentum: float = ...,
    velocity: _F64 | None = ...,
    snapshot: _F64 | None = ...,
    snapshot_gradient: _F64 | None = ...,
    average: _F64 | None = ...,
    average_weight: _F64 | None = ...,
) -> None: ...

KEY_BYTES: int
MAX_GAUSSIAN_SCALE: int
MAX_LAPLACE_SCALE: int
MAX_SCORE: int
MAX_LAPLACE_DIM: float

def os_entropy(n: int) -> bytes: ...
def isa_name() -> str: ...
def supported_isas() -> list[str]: ...
def force_isa(name: str) -> None: ...
def loss_table() -> dict[str, dict[str, Any]]: ...
def exp_points(x: _F64) -> _F64: ...
def line_search(
    margin: _F64,
    direction_margin: _F64,
    target: _F64,
    weight: _F64 | None,
    loss: LossSpec,
    loss_clip: float,
    steps: _F64,
    out: _F64,
) -> None: ...
def line_search_addition_depth(n: int) -> int: ...
def addition_depth(n: int) -> int: ...
def read_sum(x: _F64) -> float: ...
