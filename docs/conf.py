"""How the site is built; ``sh scripts/docs`` builds it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import unbag

project = "unbag"
author = "The unbag developers"
project_copyright = author
release = version = unbag.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "mathml",
    "page_meta",
    "pages_beside",
    "reference_pages",
]
exclude_patterns = ["_build", "_ext", "_templates", "gallery/*.ipynb", "gallery/*.md5"]
templates_path = ["_templates"]

# --- pages --------------------------------------------------------------------------------------

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
# tables of results have headings of the third level
suppress_warnings = ["myst.header"]
# formulas are indented blocks of plain text; code says which language it is
highlight_language = "none"
pygments_style = "tango"

# --- docstrings ---------------------------------------------------------------------------------

# `unbag.bag_target` in a docstring is a link
default_role = "py:obj"
autodoc_typehints = "none"
maximum_signature_line_length = 80
toc_object_entries_show_parents = "hide"
autodoc_inherit_docstrings = False
numpydoc_class_members_toctree = False
numpydoc_show_class_members = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# --- gallery ------------------------------------------------------------------------------------

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "subsection_order": [
        f"../examples/{section}"
        for section in ("assumptions", "data", "models", "knowing", "large")
    ],
    # others are run by hand, or by the tutorial
    "filename_pattern": r"plot_\w+\.py",
    "ignore_pattern": r"(pairing_errs|proportion_risk_fails)\.py",
    "within_subsection_order": "FileNameSortKey",
    "reset_modules": ("gallery_style.set_style",),
    "min_reported_time": 1000,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "copyfile_regex": r"GALLERY_HEADER\.rst",
    "write_computation_times": False,
}

# --- looks --------------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_math_renderer = "mathml"
html_title = "unbag"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_context = {"default_mode": "auto"}
html_show_sourcelink = False
html_copy_source = False
html_logo = html_favicon = "_static/logo.svg"
html_theme_options = {
    "logo": {"text": f"unbag {release}"},
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}
html_sidebars = {
    name: [] for name in ("index", "install", "is-this-for-me", "benchmarks", "changes", "files/**")
}
