"""Every solver against its claim, on its worst neighbors, with every loss that it takes.

The whole suite (``-m audit``) takes some 10^4 to 10^5 samples of each data set in every cell of
:mod:`audit.worst_cases`; every day, a few cells with few of them. Lower bounds hold with 99.9 %
confidence, and seeds are fixed: a cell is the same every time. With ``DPFAST_AUDIT_RESULTS`` set to
a folder, the whole suite writes its results there; ``python -m bench.audits FOLDER`` makes them the
table of docs/audit_table.md.
"""

import json
import os
import re
import time
from collections import defaultdict
from pathlib import Path

import pytest
from audit.worst_cases import BUDGETS, CASES, LOSSES, cells

from bench import audits
from bench.report import number
from dpfast import ProblemShape, plan
from dpfast.solvers import SOLVERS

CELLS = cells()
#: Cells of the short version, how many samples, and the least share of the claim that they find.
SHORT = {
    "output-perturbation-certificate-huberized-hinge-replace_one-pure": (3000, 0.5),
    "output-perturbation-edge of the certificate-huberized-hinge-replace_one-approximate":
        (3000, 0.5),
    "objective-perturbation-linear term-huberized-hinge-add_or_remove_one-approximate": (5000, 0.3),
    "dp-gd-gradients-logistic-replace_one-approximate": (5000, 0.5),
    "dp-nag-gradients-huber-add_or_remove_one-pure": (5000, 0.4),
    "dp-sgd-full batches-sigmoid-replace_one-approximate": (5000, 0.3),
    "multinomial-gradient-logistic-replace_one-approximate": (4000, 0.3),
    "dp-whitened-gd-persons-logistic-replace_one-approximate": (2000, 0.3),
    "dp-gd-parts of persons-squared-replace_one-pure": (3000, 0.6),
    "dp-whitened-gd-persons in blocks-logistic-replace_one-approximate": (1000, 0.2),
    "dp-whitened-gd-gradient-pinball-add_or_remove_one-approximate": (4000, 0.4),
    "dp-svrg-steps-logistic-replace_one-approximate": (5000, 0.2),
}  # fmt: skip


@pytest.mark.audit
@pytest.mark.slow
@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_whole_suite(cell):
    before = time.process_time()
    result = cell.audit()
    seconds = round(time.process_time() - before, 1)
    folder = os.environ.get("DPFAST_AUDIT_RESULTS")
    if folder:
        name = re.sub(r"\W+", "-", str(cell)) + ".json"
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / name).write_text(json.dumps({**result, "seconds": seconds}))
    assert result["measured_epsilon"] <= result["claimed_epsilon"]
    if result["measured_mu"] is not None:
        assert result["measured_mu"] <= result["claimed_mu"]
    # An audit that finds nothing audits nothing; other losses than the first have fewer samples.
    if cell.loss == cell.case.losses[0]:
        assert result["measured_epsilon"] > 0.1 * result["claimed_epsilon"]


@pytest.mark.audit
@pytest.mark.parametrize("name", SHORT)
def test_short_version(name):
    (cell,) = (cell for cell in CELLS if str(cell) == name)
    samples, share = SHORT[name]
    result = cell.audit(samples)
    assert share * result["claimed_epsilon"] < result["measured_epsilon"]
    assert result["measured_epsilon"] <= result["claimed_epsilon"]
    if result["measured_mu"] is not None:
        assert result["measured_mu"] <= result["claimed_mu"]


def variants_left_out():
    """A cell of every variant of which the short version has none."""
    found = {(cell.case.solver, cell.case.variant): cell for cell in reversed(CELLS)}
    short = {(cell.case.solver, cell.case.variant) for cell in CELLS if str(cell) in SHORT}
    return [found[key] for key in sorted(set(found) - short)]


@pytest.mark.audit
@pytest.mark.parametrize("cell", variants_left_out(), ids=str)
def test_every_variant_runs(cell):
    """With few samples, so that the whole suite, which is run by hand, is not found broken then."""
    result = cell.audit(20)
    assert result["measured_epsilon"] <= result["claimed_epsilon"]


def test_every_solver_has_a_worst_case():
    """A solver that is added to the table is audited, or this says that it is not."""
    missing = set(SOLVERS) - {case.solver for case in CASES}
    assert not missing, f"no worst case in tests/audit/worst_cases.py for {sorted(missing)}"


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_combination_is_a_cell_or_is_refused(solver):
    module = SOLVERS[solver]
    found = {(c.loss, c.relation, c.kind) for c in CELLS if c.case.solver == solver}
    served = [(r, k) for r in module.relations for k in BUDGETS if k in module.budgets]
    audited = {loss for loss, _, _ in found}
    assert found == {(loss, *pair) for loss in audited for pair in served}
    # Whatever a loss without bounds may need to be taken.
    options = {"clip_norm": 1.0, "loss_clip": 1.0}
    for name in set(LOSSES) - audited:
        shape = ProblemShape(100, 1, 1.0, LOSSES[name], intercept=0.0)
        given = {key: value for key, value in options.items() if key in module.options}
        with pytest.raises(ValueError, match=r"loss|initial_gap"):
            plan(shape, solver, BUDGETS["approximate"], **given)


DOCUMENTED = pytest.mark.skipif(
    not audits.PAGE.is_file(), reason="the documentation is not part of a package"
)


@DOCUMENTED
def test_the_table_in_the_docs_is_complete_and_within_the_claims():
    text = audits.PAGE.read_text(encoding="utf-8")
    cells, table = audits.cells_of_rows(CELLS), audits.recorded(text)
    assert audits.page(text, [], cells) == text
    found = {audits.key(row): audits.losses(row) for row in table}
    assert len(found) == len(table) and set(found) <= set(cells)
    assert all(count <= cells[name] for name, count in found.items())
    assert all(number(r["measured ε at least"]) <= number(r["claimed ε"]) for r in table)


@DOCUMENTED
def test_the_summary_has_the_largest_share_of_each_solver():
    most = defaultdict(int)
    for row in audits.recorded(audits.PAGE.read_text(encoding="utf-8")):
        kind = "pure" if row["at δ"] == "0" else "approximate"
        most[row["solver"], kind] = max(most[row["solver"], kind], int(row["of it"].strip("%")))
    text = audits.PAGE.with_name("audits.md").read_text(encoding="utf-8")
    shown = {}
    for solver, *shares in re.findall(r"^\| (`\S+`) \| (\S+) \| (\S+) \|$", text, flags=re.M):
        for kind, share in zip(("approximate", "pure"), shares, strict=True):
            shown |= {(solver, kind): int(share.strip("%"))} if share != "–" else {}
    assert shown == most


@DOCUMENTED
def test_new_results_take_the_place_of_their_row():
    """Of two losses, the one whose measured share is larger is shown, with the smaller share."""
    text = audits.PAGE.read_text(encoding="utf-8")
    (cell,) = (c for c in CELLS if str(c) == "dp-gd-gradients-logistic-replace_one-approximate")
    one = dict(zip(("solver", "variant", "relation", "kind"), audits.cell_row(cell), strict=True))
    one |= {"loss": "logistic", "claimed_epsilon": 2.0, "delta": 0.01, "samples": 50}
    results = [{**one, "measured_epsilon": 1.0}, {**one, "loss": "huber", "measured_epsilon": 1.5}]
    cells = audits.cells_of_rows(CELLS)
    before, after = (
        {audits.key(row): row for row in audits.recorded(page)}
        for page in (text, audits.page(text, results, cells))
    )
    name = audits.cell_row(cell)
    assert {k for k in after if after[k] != before.get(k)} == {name}
    assert list(after[name].values())[3:] == [
        "2.000", "0.01", "1.500", "75%", "huber", "2, from 50%", "200",
    ]  # fmt: skip
