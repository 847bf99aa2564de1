"""Headers that every response carries, so that a page cannot be framed, sniffed, scripted by others or kept."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.envelope import raw_headers, with_headers

# Nothing but our own files: no inline script or style, no eval, and no text becomes markup or script
# (https://w3c.github.io/trusted-types/dist/spec/). Pages work without the scripts too.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    # Nothing is told to other sites. Not `no-referrer`: under it browsers send `Origin: null` with our own forms
    # (https://fetch.spec.whatwg.org/#origin-header), which then could not be told from a foreign page's.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_KEPT = raw_headers(HEADERS | {"Cache-Control": "no-cache"})
_NOT_KEPT = raw_headers(HEADERS | {"Cache-Control": "no-store"})


class SecurityHeaders:
    """ASGI middleware: adds `HEADERS`, and forbids to store anything but the static files."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # Static files have an ETag: kept, but asked for again each time.
        headers = _KEPT if scope["path"].startswith("/static/") else _NOT_KEPT

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                with_headers(message, headers)
            await send(message)

        await self._app(scope, receive, send_with_headers)
