"""What this package raises. A refusal is none of it: that is a `Reply`. No text here holds a token, a URL, an argument
or anything that was answered."""


class ClientError(Exception):
    """The base of all below."""


class Misuse(ClientError, ValueError):
    """The caller asked for something that can never be right; nothing was sent."""


class Unreachable(ClientError):
    """No answer came within the tries that are allowed. `sent`: whether a request may have arrived all the same; a call
    with an idempotency key is then safe to make again, under the same step."""

    def __init__(self, problem: str, *, sent: bool) -> None:
        so = "it may have arrived" if sent else "nothing was sent"
        super().__init__(f"the service does not answer ({problem}); {so}")
        self.sent = sent


class UnexpectedAnswer(ClientError):
    """Something answered that does not speak as the service does: a proxy, or another service at this address."""

    def __init__(self, http_status: int, problem: str) -> None:
        super().__init__(f"HTTP {http_status} is no answer of the service: {problem}")
        self.http_status = http_status
