"""What an OpenID provider says, held against OpenID Connect Core 1.0: everything that is not a good ID token for this
sign-in vouches for nobody."""

import base64
import hmac
import json
import time
from typing import Any

import httpx
import pytest
from joserfc.jwk import ECKey, OctKey

from api.oidc import SignInRefusedError, new_verifier
from api.oidc_exchange import Exchanges, ProviderUnavailableError
from gateways.client import new_client
from gateways.egress import Denial
from ledger.identities import Identity
from tests.api.fake_provider import ANA, CLIENT, ISSUER, KEY, NEXT_KEY, SECRET, FakeProvider, never, provider_of

BASE = "http://counterseal.test"
CONFIGURATION = "/.well-known/openid-configuration"


async def vouch(fake: FakeProvider, provider: Any = None, **response: str | None) -> Identity:
    """A whole sign-in; `response` changes what comes back with the browser."""
    provider, nonce, verifier = provider or provider_of(fake, BASE), new_verifier(), new_verifier()
    answer = fake.authorize(await provider.authorization_url(state="state", nonce=nonce, verifier=verifier))
    sent = {name: value for name, value in (answer | response).items() if value is not None}
    return await provider.finish(sent, nonce=nonce, verifier=verifier)


async def refusal(fake: FakeProvider, **response: str | None) -> str:
    with pytest.raises(SignInRefusedError) as refused:
        await vouch(fake, **response)
    return refused.value.because


async def test_a_good_one_is_taken() -> None:
    identity = await vouch(FakeProvider())
    assert (identity.issuer, identity.subject, identity.username) == (ISSUER, ANA["sub"], "ana.example")
    assert identity.roles == {"finance"}


# The response


@pytest.mark.parametrize(
    ("change", "because"),
    [
        ({"iss": "https://other.example"}, "response_of_another_issuer"),
        ({"iss": f"{ISSUER}/"}, "response_of_another_issuer"),
        ({"iss": ""}, "response_of_another_issuer"),
        ({"iss": None}, "response_without_issuer"),
        ({"code": None}, "response_without_code"),
        ({"code": ""}, "response_without_code"),
        ({"error": "access_denied"}, "denied_at_the_provider"),
        ({"error": "<script>"}, "error_at_the_provider"),
        ({"code": "of-somebody-else"}, "code_not_taken"),
    ],
)
async def test_a_response_that_does_not_hold(change: dict[str, str | None], because: str) -> None:
    fake = FakeProvider()
    assert await refusal(fake, **change) == because
    assert fake.asked("/token") == (because == "code_not_taken")


async def test_a_provider_that_promises_no_issuer_need_not_send_one() -> None:
    fake = FakeProvider(metadata={"authorization_response_iss_parameter_supported": None})
    assert (await vouch(fake, iss=None)).subject == ANA["sub"]
    assert await refusal(fake, iss="https://other.example") == "response_of_another_issuer"


# The ID token

PURPOSE, UNGENUINE = "id_token_for_another_purpose", "id_token_not_genuine"


@pytest.mark.parametrize(
    ("claims", "because"),
    [
        ({"nonce": "another"}, "id_token_of_another_sign_in"),
        ({"nonce": ["another"]}, "id_token_of_another_sign_in"),
        ({"nonce": None}, PURPOSE),
        ({"aud": "another-client"}, PURPOSE),
        ({"aud": None}, PURPOSE),
        ({"aud": []}, PURPOSE),
        ({"aud": {CLIENT: 1}}, PURPOSE),
        ({"aud": CLIENT + " "}, PURPOSE),
        ({"aud": [CLIENT, "other"]}, "id_token_for_another_client"),
        ({"aud": [CLIENT, "other"], "azp": "other"}, "id_token_for_another_client"),
        ({"azp": "other"}, "id_token_for_another_client"),
        ({"azp": [CLIENT]}, "id_token_for_another_client"),
        ({"iss": "https://other.example"}, PURPOSE),
        ({"iss": f"{ISSUER}/"}, PURPOSE),
        ({"iss": [ISSUER]}, PURPOSE),
        ({"iss": None}, PURPOSE),
        ({"exp": -61}, "id_token_expired"),
        ({"exp": None}, PURPOSE),
        ({"exp": "soon"}, PURPOSE),
        ({"exp": True}, PURPOSE),
        ({"iat": 3600}, PURPOSE),
        ({"iat": None}, PURPOSE),
        ({"nbf": 3600}, PURPOSE),
        ({"sub": None}, PURPOSE),
        ({"sub": ""}, PURPOSE),
        ({"sub": 17}, PURPOSE),
        ({"sub": ["a"]}, PURPOSE),
        ({"sub": "a\0b"}, "id_token_subject_not_usable"),
        ({"sub": "x" * 256}, "id_token_subject_not_usable"),
    ],
)
async def test_a_claim_that_does_not_fit_this_sign_in(claims: dict[str, Any], because: str) -> None:
    assert await refusal(FakeProvider(claims=_from_now(claims))) == because


@pytest.mark.parametrize(
    "claims", [{"aud": [CLIENT, "other"], "azp": CLIENT}, {"aud": [CLIENT]}, {"azp": CLIENT}, {"exp": -30}, {"iat": 30}]
)
async def test_more_audiences_and_a_clock_that_differs_a_little_are_taken(claims: dict[str, Any]) -> None:
    assert (await vouch(FakeProvider(claims=_from_now(claims)))).subject == ANA["sub"]


def _from_now(claims: dict[str, Any]) -> dict[str, Any]:
    """Times are given as seconds from now."""
    now = int(time.time())
    is_time = {name for name, value in claims.items() if name in ("exp", "iat", "nbf") and type(value) is int}
    return {name: now + value if name in is_time else value for name, value in claims.items()}


def _encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _with_header(fake: FakeProvider, header: dict[str, Any], key: bytes | None) -> None:
    """A token with this header, signed by HMAC-SHA256 where there is a key."""

    def forge(nonce: str) -> str:
        _, claims, _ = fake.sign(nonce).split(".")
        signed = f"{_encoded(json.dumps(header).encode())}.{claims}"
        signature = b"" if key is None else hmac.digest(key, signed.encode(), "sha256")
        return f"{signed}.{_encoded(signature)}"

    fake.id_token = forge


@pytest.mark.parametrize(
    "header", [{"alg": "none"}, {"alg": "none", "kid": "first"}, {"alg": "nOnE"}, {"kid": "first"}, {}]
)
async def test_an_unsigned_one_is_refused(header: dict[str, Any]) -> None:
    fake = FakeProvider()
    _with_header(fake, header, None)
    assert (await refusal(fake)).startswith("id_token_")


@pytest.mark.parametrize("published_alg", ["RS256", None])
@pytest.mark.parametrize("form", ["PEM", "DER", "client secret", "modulus"])
async def test_what_everybody_knows_signs_nothing(form: str, published_alg: str | None) -> None:
    """Algorithm confusion: an HMAC keyed with the public key in whichever form, or with the client's secret."""
    fake = FakeProvider()
    if published_alg is None:
        del fake.published[0]["alg"]
    keys = {
        "PEM": KEY.as_bytes("PEM", private=False),
        "DER": KEY.as_bytes("DER", private=False),
        "client secret": SECRET.encode(),
        "modulus": base64.urlsafe_b64decode(fake.published[0]["n"] + "=="),
    }
    _with_header(fake, {"alg": "HS256", "kid": "first"}, keys[form])
    assert (await refusal(fake)) in (UNGENUINE, "id_token_unknown_key")


async def test_a_symmetric_key_in_the_set_is_not_used() -> None:
    shared = OctKey.generate_key(256, {"kid": "shared"})
    fake = FakeProvider(key=shared, header={"alg": "HS256"})
    fake.published.append(dict(shared.as_dict(private=True)))
    assert await refusal(fake) == UNGENUINE


async def test_a_signature_of_another_key_is_refused() -> None:
    assert await refusal(FakeProvider(key=NEXT_KEY, header={"kid": "first"})) == UNGENUINE


async def test_claims_changed_after_signing_are_refused() -> None:
    fake = FakeProvider()

    def forge(nonce: str) -> str:
        header, claims, signature = fake.sign(nonce).split(".")
        content = json.loads(base64.urlsafe_b64decode(claims + "=="))
        return f"{header}.{_encoded(json.dumps(content | {'sub': 'somebody-else'}).encode())}.{signature}"

    fake.id_token = forge
    assert await refusal(fake) == UNGENUINE


async def test_a_key_for_encryption_does_not_verify() -> None:
    fake = FakeProvider()
    fake.published[0]["use"] = "enc"
    fake.published.append(dict(NEXT_KEY.as_dict(private=False)))
    assert await refusal(fake) == "id_token_unknown_key"


@pytest.mark.parametrize("extra", [{"crit": ["exp"], "exp": 1}, {"crit": ["unknown"], "unknown": 1}, {"crit": []}])
async def test_a_header_that_must_be_understood_is_refused(extra: dict[str, Any]) -> None:
    fake = FakeProvider()
    _with_header(fake, {"alg": "RS256", "kid": "first", **extra}, b"any")
    assert await refusal(fake) == UNGENUINE


@pytest.mark.parametrize("token", [" ", "x", "a.b.c", "a.b.c.d.e", "ü.ü.ü", "." * 1000, f"{_encoded(b'[]')}.e30.e30"])
async def test_what_is_no_token_is_refused(token: str) -> None:
    assert await refusal(FakeProvider(id_token=lambda nonce: token)) == UNGENUINE


async def test_other_public_key_algorithms_are_taken_and_unknown_kinds_of_keys_passed_over() -> None:
    key = ECKey.generate_key("P-256", {"kid": "curve"})
    unusable: list[dict[str, Any]] = [{"kty": "ML-DSA", "kid": "later"}, {"kty": "RSA", "kid": "broken"}, {}]
    published = [*unusable, dict(key.as_dict(private=False))]
    fake = FakeProvider(key=key, header={"alg": "ES256"}, published=published)
    assert (await vouch(fake)).subject == ANA["sub"]


# Keys that change


async def test_new_keys_are_fetched_once_when_a_token_names_one() -> None:
    fake = FakeProvider()
    provider = provider_of(fake, BASE)
    await vouch(fake, provider)
    await vouch(fake, provider)
    assert fake.asked("/keys") == 1
    fake.published, fake.key = [dict(NEXT_KEY.as_dict(private=False))], NEXT_KEY
    assert (await vouch(fake, provider)).subject == ANA["sub"]
    assert fake.asked("/keys") == 2
    # The old key is gone with that; it is looked for once.
    fake.key = KEY
    with pytest.raises(SignInRefusedError, match="id_token_unknown_key"):
        await vouch(fake, provider)
    assert fake.asked("/keys") == 3


async def test_keys_are_not_believed_for_ever() -> None:
    passed = 0.0
    fake = FakeProvider()
    provider = provider_of(fake, BASE, clock=lambda: passed)
    await vouch(fake, provider)
    passed = 599.0
    fake.published = [dict(NEXT_KEY.as_dict(private=False))]
    await vouch(fake, provider)
    passed = 601.0
    with pytest.raises(SignInRefusedError, match="id_token_unknown_key"):
        await vouch(fake, provider)


# A provider that is away, or not one


def _no_connection(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("https://login.example.com/token?code=secret", request=request)


@pytest.mark.parametrize(
    "answer",
    [
        _no_connection,
        lambda request: httpx.Response(500, text="Traceback"),
        lambda request: httpx.Response(302, headers={"location": "https://evil.example"}),
        lambda request: httpx.Response(200, text="<html>"),
        lambda request: httpx.Response(200, json=[]),
        lambda request: httpx.Response(200, json={"issuer": ISSUER, "keys": {}}),
        lambda request: httpx.Response(200, json={"id_token": 1, "keys": [1]}),
        lambda request: httpx.Response(200, content=b'{"issuer": 1, "issuer": 2}'),
        lambda request: httpx.Response(200, content=b" " * (1024 * 1024 + 1)),
        lambda request: httpx.Response(401, json={"error": "invalid_client", "error_description": SECRET}),
    ],
)
@pytest.mark.parametrize("path", [CONFIGURATION, "/keys", "/token", "/userinfo"])
async def test_what_does_not_answer_as_a_provider(path: str, answer: Any) -> None:
    fake = FakeProvider(answers={path: answer})
    if path == "/userinfo":
        fake.person = {"sub": ANA["sub"]}
    with pytest.raises((ProviderUnavailableError, SignInRefusedError)) as raised:
        await vouch(fake)
    said = str(raised.value)
    assert said.replace("_", "").isalnum()
    assert said.isascii()
    assert isinstance(raised.value, ProviderUnavailableError) or said == "userinfo_of_somebody_else"


async def test_nobody_is_waited_for_for_ever() -> None:
    client = httpx.AsyncClient(transport=httpx.MockTransport(never), trust_env=False)
    with pytest.raises(ProviderUnavailableError, match="timeout"):
        await Exchanges(client, deadline_seconds=0.05).get(ISSUER)


@pytest.mark.parametrize(
    "change",
    [
        {"issuer": "https://other.example"},
        {"issuer": f"{ISSUER}/"},
        {"token_endpoint": "http://login.example.com/token"},
        {"jwks_uri": "http://login.example.com/keys"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"end_session_endpoint": "javascript:alert(1)"},
        {"userinfo_endpoint": "file:///etc/passwd"},
        {"token_endpoint": None},
    ],
)
async def test_a_discovery_document_that_does_not_hold_is_not_used(change: dict[str, Any]) -> None:
    with pytest.raises(ProviderUnavailableError, match="discovery_"):
        await vouch(FakeProvider(metadata=change))


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/x", "https://169.254.169.254/latest", "http://[::1]:9/x"])
async def test_only_public_addresses_are_connected_to_unless_it_is_said(url: str) -> None:
    """A discovery document names addresses, and must not reach into the network that the service is in."""
    denied: list[Denial] = []
    async with new_client() as client:
        with pytest.raises(ProviderUnavailableError):
            await Exchanges(client, denied=denied.append).get(url)
        with pytest.raises(ProviderUnavailableError, match="egress_denied"):
            await Exchanges(client, denied=denied.append).get("http://localhost:9/x")
    assert [each.because for each in denied] == ["address_not_allowed"]


def test_a_verifier_is_as_pkce_wants_it() -> None:
    """https://www.rfc-editor.org/rfc/rfc7636#section-4.1"""
    assert 43 <= len(new_verifier()) <= 128
    assert len({new_verifier() for _ in range(100)}) == 100
