"""Settings of the documentation: `make docs` builds it, and needs no network to do so."""

import sys
from pathlib import Path

import slender

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "slender"
author = copyright = "the slender developers"  # noqa: A001  (Sphinx's name)
version = release = slender.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "docstrings", "sphinx.ext.napoleon", "mathml"]
exclude_patterns = ["_build"]
nitpicky = True

# -- pages ---------------------------------------------------------------------------------------
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
highlight_language = "text"
html_math_renderer = "mathml"

# -- docstrings ----------------------------------------------------------------------------------
autodoc_typehints = "none"  # the docstrings have them
autodoc_member_order = "bysource"
autodoc_default_options = {
    "members": True,
    "inherited-members": "BaseEstimator, ClassifierMixin, TransformerMixin, LinearOperator",
    "exclude-members": "set_fit_request, set_partial_fit_request, set_score_request, get_params, "
    "set_params, get_metadata_routing",
}
napoleon_google_docstring = False
napoleon_use_param = False
napoleon_use_rtype = False
napoleon_custom_sections = [("Attributes", "params_style")]

# -- the site ------------------------------------------------------------------------------------
html_theme = "furo"
html_title = "slender"
html_static_path = ["_static"]
html_css_files = ["slender.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"sidebar_hide_name": False}
