"""Sphinx configuration; `sphinx-build -W docs docs/_build/html` makes the pages."""

import importlib.util
import inspect
import json
import pkgutil
import warnings
from pathlib import Path

from docutils import nodes

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
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "auto_examples/**/*.md5", "gallery", "sg_execution_times.rst"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

html_theme = "pydata_sphinx_theme"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_title = "dpfast"
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {"guide/start": []}  # nothing is below it
html_theme_options = {
    "header_links_before_dropdown": 7,
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
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 3600,
    "ignore_repr_types": r"matplotlib|dpfast\.plotting",
    "remove_config_comments": True,
}

# The examples say themselves where something is not private, and why they fit more than once.
warnings.filterwarnings("error", category=dpfast.PrivacyLeakWarning)
warnings.filterwarnings("ignore", category=dpfast.errors.RepeatedFitWarning)


def _solver_pages():
    """A page for each solver from its own docstrings; docs/guide/solvers.md lists them."""
    folder = HERE / "solvers"
    folder.mkdir(exist_ok=True)
    for page in folder.glob("*.rst"):
        if page.stem not in {*SOLVERS, *_beside_the_table()}:
            page.unlink()  # of a solver that is gone: docs/guide/solvers.md takes all there are
    for name, solver in SOLVERS.items():
        text = inspect.cleandoc(solver.doc)
        budgets = ", ".join(_BUDGETS[kind] for kind in solver.budgets)
        facts = [
            ("Budgets", budgets),
            ("Neighbors", ", ".join(f"``{r}``" for r in solver.relations)),
            ("Options", ", ".join(f"``{o}``" for o in solver.options)),
        ]
        title = f"``{name}``"
        page = [title, "=" * len(title), "", *(f":{k}: {v}" for k, v in facts), "", text, ""]
        page += ["Of the rest see :func:`dpfast.plan` and :func:`dpfast.solve`.", ""]
        owner = solver.run.__module__
        for function in ("plan", "run"):
            # Solvers of one family share their functions.
            page += [f".. autofunction:: {owner}.{function}", "   :no-index:", ""]
        _write(folder / f"{name}.rst", "\n".join(page))
    for name in _beside_the_table():
        module = importlib.import_module(f"dpfast.solvers.{name}")
        text = inspect.cleandoc(module.__doc__)
        functions = [
            f".. autofunction:: {module.__name__}.{n}"
            for n in _exported(module)
            if inspect.isfunction(getattr(module, n))
        ]
        title = f"``{name}``"
        lines = [title, "=" * len(title), "", text, "", *functions, ""]
        _write(folder / f"{name}.rst", "\n".join(lines))


def _beside_the_table():
    """Solvers that serve one estimator and have no name of their own."""
    known = {solver.run.__module__.split(".")[-1] for solver in SOLVERS.values()}
    modules = pkgutil.iter_modules(dpfast.solvers.__path__)
    found = (module.name for module in modules if not module.ispkg)
    others = {*known, "meanings"}  # what explains numbers of plans is no solver
    return [name for name in found if name[0] != "_" and name not in others]


def _exported(module):
    return getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if name[0] != "_" and getattr(value, "__module__", None) == module.__name__
    ]


_BUDGETS = {"pure": "ε", "approximate": "(ε, δ)", "zcdp": "ρ-zCDP", "gdp": "µ-GDP"}


def _write(path, text):
    """Write only what has changed, so that only changed pages are built again."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


_solver_pages()


#: Pages of the API: title, and for each module the names on it; None takes all that it exports.
API = {
    "tables": (
        "Tables",
        {
            "dpfast.tabular": [
                "TableModel",
                "TableSchema",
                "TableFit",
                "FitPlan",
                "EncodedRows",
                "Tally",
                "ClassTarget",
                "RangeTarget",
                "read_bounds",
            ],
        },
    ),
    "estimators": ("Estimators", {"dpfast.estimators": None, "dpfast.model_selection": None}),
    "planning": (
        "Planning and solving",
        {"dpfast": ["plan", "solve", "Plan", "Result", "Problem", "ProblemShape", "Loss"]},
    ),
    "blocks": ("Rows in blocks", {"dpfast.blocks": None}),
    "privacy": ("Privacy", {"dpfast.privacy": None, "dpfast.errors": None}),
    "preprocessing": (
        "Preprocessing and data",
        {
            "dpfast.preprocessing": None,
            "dpfast.datasets": ["load_ipums", "load_randhie", "make_uniform_classification"],
            "dpfast.column_blocks": ["ColumnBlock"],
        },
    ),
    "plotting": ("Pictures", {"dpfast.plotting": None}),
    "parts": (
        "Parts underneath",
        {
            "dpfast.mechanisms": None,
            "dpfast.queries": None,
            "dpfast.fused": None,
            "dpfast.objectives": None,
            "dpfast.optimizers": None,
            "dpfast.random": ["SecureGenerator"],
            "dpfast": ["show_versions"],
        },
    ),
    "theory": (
        "Theory of the papers",
        {
            "dpfast.theory.zhang2017": None,
            "dpfast.theory.lowy2021": None,
            "dpfast.theory.kuru2020": None,
        },
    ),
}


#: The module under which the API has a name: `dpfast` gives many of them shorter ones.
_HOMES = {}


def _api_pages():
    """A page for each entry of `API`: a table, then everything at length."""
    folder = HERE / "api"
    folder.mkdir(exist_ok=True)
    begun = set()
    for page, (title, modules) in API.items():
        tables, entries = [], []
        for name, names in modules.items():
            if importlib.util.find_spec(name) is None:
                continue
            module = importlib.import_module(name)
            found = [n for n in names or _exported(module) if not n.isupper()]
            head = [f".. currentmodule:: {name}", ""]
            tables += [*head, ".. autosummary::", "", *(f"   {n}" for n in found), ""]
            entries += head if name in begun else [f".. module:: {name}", ""]
            begun.add(name)
            for n in found:
                _HOMES[n] = name
                kind = _directive(getattr(module, n))
                members = ["   :members:", "   :inherited-members:"] if kind == "autoclass" else []
                entries += [f".. {kind}:: {n}", *members, ""]
        lines = [title, "=" * len(title), "", *tables, *entries]
        _write(folder / f"{page}.rst", "\n".join(lines))
    _documents_page(folder)
    toctree = [
        "API",
        "===",
        "",
        ".. toctree::",
        "   :maxdepth: 1",
        "",
        *(f"   {p}" for p in (*API, "documents")),
        "",
    ]
    _write(folder / "index.rst", "\n".join(toctree))


def _documents_page(folder):
    """What dpfast writes about privacy: the fields of each document, and its schema as a file."""
    schemas = importlib.import_module("dpfast.privacy.schemas")
    lines = ["Documents", "=========", "", ".. module:: dpfast.privacy.schemas", ""]
    lines += [inspect.cleandoc(schemas.__doc__), ""]
    for name in ("CERTIFICATE", "LEDGER", "REPORT"):
        schema = getattr(schemas, name)
        _write(folder / f"{name.lower()}.schema.json", json.dumps(schema, indent=1))
        title = name.capitalize()
        lines += [title, "-" * len(title), "", f":download:`{name.lower()}.schema.json`", ""]
        lines += [".. list-table::", "   :header-rows: 1", "", "   * - field", "     - type"]
        lines += ["     - always there"]
        for field, kind in schema["properties"].items():
            always = "yes" if field in schema["required"] else "no"
            lines += [f"   * - ``{field}``", f"     - {_kind(kind)}", f"     - {always}"]
        lines.append("")
    _write(folder / "documents.rst", "\n".join(lines))


def _kind(schema):
    """The type of a field, in words."""
    if "const" in schema:
        return f"``{schema['const']}``"
    if "enum" in schema:
        return ", ".join(f"``{value}``" for value in schema["enum"])
    for several in ("oneOf", "anyOf"):
        if several in schema:
            return " or ".join(dict.fromkeys(_kind(one) for one in schema[several]))
    kind = schema.get("type", "any")
    return kind if isinstance(kind, str) else " or ".join(kind)


def _directive(value):
    if isinstance(value, type):
        return "autoexception" if issubclass(value, BaseException) else "autoclass"
    return "autofunction" if callable(value) else "autodata"


_api_pages()


def _skip(app, what, name, obj, skip, options):
    """Leave out what estimators inherit from scikit-learn: its own pages have it."""
    foreign = (getattr(obj, "__module__", None) or "").startswith("sklearn")
    request = name.startswith("set_") and name.endswith("_request")
    return True if foreign or request else None


def _short_name(app, env, node, content):
    """Lead ``dpfast.Name`` to where the API has it, and what the API has not to its source."""
    module, _, name = node.get("reftarget", "").rpartition(".")
    if node.get("refdomain") != "py":
        return None
    if module not in ("dpfast", "") or name not in _HOMES:
        return _source(node["reftarget"], content)
    python, target = env.get_domain("py"), f"{_HOMES[name]}.{name}"
    return python.resolve_xref(
        env, node["refdoc"], app.builder, node["reftype"], target, node, content
    )


def _source(target, content):
    """A link to the file of ``dpfast.module.name``."""
    parts = target.split(".")
    while len(parts) > 1 and parts[0] == "dpfast":
        for file in (f"{'/'.join(parts)}.py", f"{'/'.join(parts)}/__init__.py"):
            if (HERE.parent / file).exists():
                url = f"https://github.com/dpfast/dpfast/blob/main/{file}"
                return nodes.reference("", "", content, refuri=url, internal=False)
        parts.pop()
    return None


def setup(app):
    app.connect("missing-reference", _short_name)
    app.connect("autodoc-skip-member", _skip)
