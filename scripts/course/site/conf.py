"""Settings of the site: Sphinx with myst-nb and the Book theme. course.site runs it."""

project = "Distributed Training with PyTorch"
html_title = "Distributed Training with PyTorch · PyTorch 分散式訓練"
language = "en"
smartquotes = False  # of `--shm-size` they make one dash, which nobody can copy
extensions = [
    "myst_nb",
    "sphinx_copybutton",
    "course.site.extensions.languages",
    "course.site.extensions.interface",
    "course.site.extensions.wording",
    "course.site.extensions.folds",
    "course.site.extensions.lessons",
    "course.site.extensions.refusals",
    "course.site.extensions.tips",
    "course.site.extensions.search",
    "course.site.extensions.outside",
    "course.site.extensions.finish",
]
exclude_patterns = ["extra"]
html_theme = "sphinx_book_theme"
html_static_path = ["static"]
html_css_files = ["course.css", "front.css", "reading.css"]
html_js_files = ["course.js", ("reading.js", {"defer": "defer"})]
templates_path = ["templates"]
html_theme_options = {
    "logo": {"text": html_title},
    "show_toc_level": 2,
    "article_header_end": ["language.html", "article-header-buttons.html"],
    "navbar_persistent": [],
    "footer_content_items": [],
    "search_bar_text": "Search · 搜尋",
}
html_context = {"default_mode": "auto"}
html_use_index = False
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False

nb_execution_mode = "off"
nb_merge_streams = True
nb_code_prompt_show = "Show the program · 展開程式"
nb_code_prompt_hide = "Hide the program · 收起程式"
myst_heading_anchors = 3
myst_enable_extensions = ["tasklist"]
suppress_warnings = ["myst.header", "mystnb.unknown_mime_type"]
