"""Settings of the site: Sphinx with myst-nb and the PyData theme. course.site runs it."""

project = "Distributed Training with PyTorch"
html_title = "Distributed Training with PyTorch · PyTorch 分散式訓練"
language = "en"
smartquotes = False  # of `--shm-size` they make one dash, which nobody can copy
extensions = [
    "myst_nb",
    "sphinx_copybutton",
    "course.site.extensions.languages",
    "course.site.extensions.folds",
    "course.site.extensions.lessons",
    "course.site.extensions.refusals",
    "course.site.extensions.tips",
    "course.site.extensions.search",
    "course.site.extensions.outside",
    "course.site.extensions.finish",
]
exclude_patterns = ["extra"]
html_theme = "pydata_sphinx_theme"
html_static_path = ["static"]
html_css_files = ["course.css", "front.css", "reading.css"]
html_js_files = ["course.js", ("reading.js", {"defer": "defer"})]
html_scaled_image_link = False  # all images have a size
html_sidebars = {"**": ["navbar-logo", "lessons"]}
templates_path = ["templates"]
template_bridge = "course.site.extensions.finish.Templates"
buttons = ["language", "buttons", "theme-switcher", "search-button"]
html_theme_options = {
    "logo": {"text": html_title},
    "show_toc_level": 2,
    "navbar_align": "left",
    "navbar_start": ["navbar-logo", *buttons],
    # On a phone the theme moves what is in the middle or at the end into a sidebar.
    "navbar_center": [],
    "navbar_end": [],
    "navbar_persistent": [],
    "article_header_start": [],
    "primary_sidebar_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": [],
    "footer_end": [],
    "search_bar_text": "Search · 搜尋",
}
html_context = {"default_mode": "auto"}
html_use_index = False
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False

nb_execution_mode = "off"
nb_merge_streams = True
nb_render_markdown_format = "myst"  # what a cell shows may have a table
nb_code_prompt_show = "Show the program · 展開程式"
nb_code_prompt_hide = "Hide the program · 收起程式"
myst_heading_anchors = 3
myst_enable_extensions = ["tasklist"]
suppress_warnings = ["myst.header", "mystnb.unknown_mime_type"]
