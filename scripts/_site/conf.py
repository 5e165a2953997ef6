"""Settings of Sphinx for scripts/site."""

import re
import sys
from pathlib import Path

root = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "interop/python/src"))

project = "refrun"
author = "The refrun project"
copyright = author
version = release = re.search(r'(?m)^version = "(.*)"', (root / "interop/python/pyproject.toml").read_text())[1]
extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_heading_anchors = 4
autodoc_mock_imports = ["numpy", "safetensors", "torch"]
autodoc_typehints = "description"
html_theme = "furo"
html_title = f"refrun {version}"
html_show_sphinx = False
html_static_path = ["static"]
html_css_files = ["wide.css"]
# The language of blocks that have none: commands, and what they print.
highlight_language = "text"
suppress_warnings = ["misc.highlighting_failure"]


def as_written(app, what, name, obj, options, lines):
    """Docstrings are plain text: no line of theirs is markup."""
    lines[:] = ["::", ""] + ["    " + line for line in lines] + [""]


def setup(app):
    app.connect("autodoc-process-docstring", as_written)
