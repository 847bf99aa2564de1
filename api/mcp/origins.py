"""What an origin is. Apart from the endpoint, so that the settings can ask without loading what serves it."""

from urllib.parse import urlsplit

DEFAULT_PORTS = {"http": 80, "https": 443}


def is_origin(text: str) -> bool:
    """Whether it is what browsers send as an origin, e.g. `https://agents.example.com`."""
    try:
        parts = urlsplit(text)
        # No port is 0, and one that is no number raises.
        named = bool(parts.hostname) and parts.port != 0
        return named and parts.scheme in DEFAULT_PORTS and text == f"{parts.scheme}://{parts.netloc}"
    except ValueError:
        return False
