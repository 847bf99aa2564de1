"""Messages to the texts of a mail."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from notices.channel import Message

_ENVIRONMENT = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=select_autoescape(["html"], default=True, disabled_extensions=["txt"]),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


def as_text(message: Message) -> str:
    return _ENVIRONMENT.get_template("message.txt").render(message=message)


def as_html(message: Message) -> str:
    """Without images, scripts or anything that is loaded."""
    return _ENVIRONMENT.get_template("message.html").render(message=message)
