"""What the pages' own content security policy forbids, looked for in a page."""

import re
from html.parser import HTMLParser

_OURS = re.compile(r"/static/\w+\.js\?v=[0-9a-f]{12}")


class _Forbidden(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        ours = tag == "script" and _OURS.fullmatch(dict(attrs).get("src") or "")
        inline = any(name == "style" or name.startswith("on") for name, _ in attrs)
        if inline or (tag in ("script", "style", "iframe", "object", "embed", "base") and not ours):
            self.found.append(self.get_starttag_text() or tag)


def forbidden(html: str) -> list[str]:
    """Inline scripts, styles and handlers, what embeds others, and scripts that are no file of ours."""
    parser = _Forbidden()
    parser.feed(html)
    parser.close()
    return parser.found
