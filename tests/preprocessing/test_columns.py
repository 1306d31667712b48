"""Declared blocks of columns get past scikit-learn's containers."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from dpfast import LogisticRegression
from dpfast.preprocessing import (
    BoundedScaler,
    PrivateRangeScaler,
    PublicOneHotEncoder,
    RowNormClipper,
    column_blocks,
)

FRAME = pd.DataFrame(
    {"ward": ["A", "B"], "age": [20.0, 55.0], "sex": ["f", "m"], "cost": [1.0, 2.0], "id": [7, 8]}
)


def told(transformer):
    return [(block.kind, block.start, block.stop) for block in column_blocks(transformer)]


def test_of_a_scaler_and_an_encoder():
    assert told(BoundedScaler((0, 90)).fit(FRAME[["age", "cost"]])) == [
        ("number", 0, 1), ("number", 1, 2),
    ]  # fmt: skip
    assert told(PublicOneHotEncoder(["f", "m"]).fit(FRAME[["sex"]])) == [("one-hot", 0, 3)]
    scaler = PrivateRangeScaler((0, 90), random_state=0)
    assert told(scaler.fit(np.ones((200_000, 1)))) == [("number", 0, 1)]


@pytest.mark.parametrize("threshold", [0.0, 1.0])
@pytest.mark.parametrize("remainder", ["drop", "passthrough"])
def test_they_stand_where_the_columns_do(threshold, remainder):
    """Against the columns themselves: a one-hot block has one 1 in every row."""
    encode = ColumnTransformer(
        [
            ("wards", PublicOneHotEncoder(["A", "B"]), ["ward"]),
            ("none", BoundedScaler((0, 90)), []),
            ("numbers", make_pipeline("passthrough", BoundedScaler((0, 90))), ["age", "cost"]),
            ("gone", "drop", ["id"]),
            ("sexes", PublicOneHotEncoder(["f", "m", "x"], "ignore"), ["sex"]),
        ],
        remainder=remainder,
        sparse_threshold=threshold,
    )
    frame = FRAME.assign(other=3.5)
    X = encode.fit_transform(frame)
    X = X.toarray() if scipy.sparse.issparse(X) else X
    blocks = column_blocks(make_pipeline(FunctionTransformer(), encode).fit(frame))
    assert [(b.kind, b.width) for b in blocks] == [
        ("one-hot", 3), ("number", 1), ("number", 1), ("one-hot", 3),
        *[("number", 1)] * (remainder == "passthrough"),
    ]  # fmt: skip
    assert [b.start for b in blocks] == [0, *(b.stop for b in blocks[:-1])]
    assert blocks[-1].stop == X.shape[1]
    for block in blocks:
        entries = X[:, block.start : block.stop]
        assert (block.kind == "one-hot") == (set(entries.ravel()) == {0.0, 1.0})


def test_in_a_pipeline_with_a_model():
    encode = make_column_transformer(
        (BoundedScaler((0, 90)), ["age"]), (PublicOneHotEncoder(["A", "B"]), ["ward"])
    )
    blocks = column_blocks(encode.fit(FRAME))
    model = LogisticRegression(
        data_norm=len(blocks) ** 0.5, classes=[0, 1], column_blocks=blocks, random_state=0
    )
    rows = pd.concat([FRAME] * 500, ignore_index=True)
    pipeline = make_pipeline(encode, model).fit(rows, rows["ward"] == "B")
    assert pipeline[-1].privacy_.notes == ()
    assert told(pipeline[:-1]) == [("number", 0, 1), ("one-hot", 1, 4)]
    with pytest.raises(TypeError, match=r"got LogisticRegression\. Give .* pipeline\[:-1\]"):
        column_blocks(pipeline)


@pytest.mark.parametrize(
    "silent", [StandardScaler(), OneHotEncoder(), RowNormClipper(), FunctionTransformer(np.sqrt)]
)
def test_what_does_not_say(silent):
    encode = make_column_transformer((silent, ["age"])).fit(FRAME)
    with pytest.raises(TypeError, match=f"got {type(silent).__name__}"):
        column_blocks(encode)


@pytest.mark.parametrize("value", [None, "drop", 3, make_pipeline("passthrough")])
def test_what_is_no_transformer(value):
    with pytest.raises(TypeError, match="transformer must be a ColumnTransformer or Pipeline"):
        column_blocks(value)


@pytest.mark.parametrize(
    "unfitted", [BoundedScaler((0, 1)), make_column_transformer((BoundedScaler((0, 1)), ["age"]))]
)
def test_not_fitted(unfitted):
    with pytest.raises(NotFittedError, match="fit"):
        column_blocks(unfitted)
