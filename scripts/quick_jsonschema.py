"""`import quick_jsonschema` before nbformat, papermill or nbconvert, which import jsonschema.

jsonschema takes two seconds to import a module that checks addresses. It lives without, and no
notebook needs the check.
"""

import sys

# How Python marks a module that cannot be imported.
sys.modules.setdefault("rfc3987_syntax", None)
