"""Sphinx configuration; `sphinx-build -W docs docs/_build/html` makes the pages."""

import inspect
import warnings
from pathlib import Path

import dpfast
from dpfast.solvers import SOLVERS

HERE = Path(__file__).parent

project = "dpfast"
author = "The dpfast developers"
project_copyright = author
release = version = dpfast.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "auto_examples/**/*.md5", "gallery", "sg_execution_times.rst"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

html_theme = "pydata_sphinx_theme"
html_title = "dpfast"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navigation_depth": 2,
    "show_nav_level": 1,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"\.py$",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 3600,
    "remove_config_comments": True,
}

# The examples say themselves where something is not private.
warnings.filterwarnings("error", category=dpfast.PrivacyLeakWarning)


def _solver_pages():
    """A page for each solver from its own docstrings, and their list."""
    folder = HERE / "solvers"
    folder.mkdir(exist_ok=True)
    rows = []
    for name, module in SOLVERS.items():
        text = inspect.cleandoc(module.__doc__)
        summary = " ".join(text.split("\n\n")[0].split())
        budgets = ", ".join(_BUDGETS[kind] for kind in module.BUDGET_KINDS)
        facts = [
            ("Budgets", budgets),
            ("Neighbors", ", ".join(f"``{r}``" for r in module.RELATIONS)),
            ("Options", ", ".join(f"``{o}``" for o in module.OPTIONS)),
        ]
        title = f"``{name}``"
        page = [title, "=" * len(title), "", *(f":{k}: {v}" for k, v in facts), "", text, ""]
        owner = inspect.getmodule(module.plan).__name__
        for function in ("plan", "run"):
            # Solvers of one family share their functions.
            page += [f".. autofunction:: {owner}.{function}", "   :no-index:", ""]
        _write(folder / f"{name}.rst", "\n".join(page))
        rows += [f"   * - :doc:`{name}`", f"     - {budgets}", f"     - {summary}"]
    head = _HEAD.read_text(encoding="utf-8")
    table = [".. list-table::", "   :header-rows: 1", "   :widths: 24 18 58", ""]
    table += ["   * - solver", "     - budgets", "     - what it does", *rows]
    toctree = ["", ".. toctree::", "   :hidden:", "", *(f"   {name}" for name in SOLVERS), ""]
    _write(folder / "index.rst", "\n".join([head, *table, *toctree]))


_BUDGETS = {"pure": "ε", "approximate": "(ε, δ)", "zcdp": "ρ-zCDP", "gdp": "µ-GDP"}
_HEAD = HERE / "guide" / "solvers_head.txt"


def _write(path, text):
    """Write only what has changed, so that only changed pages are built again."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


_solver_pages()


def _skip(app, what, name, obj, skip, options):
    """Leave out what estimators inherit from scikit-learn: its own pages have it."""
    foreign = (getattr(obj, "__module__", None) or "").startswith("sklearn")
    request = name.startswith("set_") and name.endswith("_request")
    return True if foreign or request else None


def setup(app):
    app.connect("autodoc-skip-member", _skip)
