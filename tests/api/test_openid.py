"""Signing in with an OpenID provider: what it takes, and everything that does not do."""

import asyncio
import base64
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest
import structlog

from api.sessions import COOKIE
from ledger.principals import Person
from tests.api.fake_provider import ANA, CLIENT, ISSUER, SECRET, FakeProvider, provider_of
from tests.api.parked import PASSWORD, TENANT, Office
from tests.api.test_pages import BASE, browser, hidden

STATE = "counterseal_oidc"


@pytest.fixture
def fake(desk: Office) -> FakeProvider:
    made = FakeProvider()
    use(desk, made)
    return made


def use(desk: Office, fake: FakeProvider, **options: Any) -> None:
    desk.app.state.context = replace(desk.app.state.context, oidc=provider_of(fake, BASE, **options))


async def begin(client: httpx.AsyncClient, path: str = "/") -> str:
    """Where the browser is sent to."""
    response = await client.get(f"/signin/oidc?{urlencode({'next': path})}")
    assert response.status_code == 302
    return response.headers["location"]


async def come_back(client: httpx.AsyncClient, answer: dict[str, str]) -> httpx.Response:
    return await client.get(f"/signin/oidc/callback?{urlencode(answer)}")


async def sign_in(client: httpx.AsyncClient, fake: FakeProvider, path: str = "/") -> httpx.Response:
    return await come_back(client, fake.authorize(await begin(client, path)))


async def who(desk: Office, client: httpx.AsyncClient) -> Person:
    person = await desk.ledger.principals.session(client.cookies[COOKIE])
    assert person is not None
    return person


def refused(response: httpx.Response, status: int, sentence: str) -> None:
    """A page that says so, in our own words, and nobody is signed in."""
    assert response.status_code == status
    assert sentence in response.text
    assert "Not signed in." in response.text
    for foreign in ("Traceback", "invalid_grant", "<b>no</b>", "id_token", SECRET):
        assert foreign not in response.text
    cookies = response.headers.get_list("set-cookie")
    assert not any(each.startswith(COOKIE) for each in cookies)
    assert any(each.startswith(f'{STATE}="";') for each in cookies)


DOES_NOT_HOLD = "does not hold. Begin again."


# What it takes


async def test_a_first_sign_in_makes_an_account_with_the_roles_of_the_groups(desk: Office, fake: FakeProvider) -> None:
    client = browser(desk)
    response = await sign_in(client, fake, "/history")
    assert (response.status_code, response.headers["location"]) == (303, "/history")
    person = await who(desk, client)
    assert (person.tenant, person.username, person.display_name) == (TENANT, "ana.example", "Ana Example")
    assert (person.roles, person.issuer) == ({"finance"}, ISSUER)
    assert person.names >= {"ana.example", "ana@example.com", ANA["sub"]}
    assert (await client.get("/")).status_code == 200


async def test_the_request_and_its_cookie_are_as_they_should_be(desk: Office, fake: FakeProvider) -> None:
    client = browser(desk)
    response = await client.get("/signin/oidc?next=/stats")
    location = urlsplit(response.headers["location"])
    asked = {name: value for name, (value,) in parse_qs(location.query).items()}
    assert f"{location.scheme}://{location.netloc}{location.path}" == f"{ISSUER}/authorize"
    assert asked["tenant"] == "example"
    assert asked["client_id"] == CLIENT
    assert asked["redirect_uri"] == f"{BASE}/signin/oidc/callback"
    assert asked["scope"] == "openid profile email"
    (cookie,) = response.headers.get_list("set-cookie")
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert "Max-Age=600" in cookie
    secret = client.cookies[STATE]
    assert len({secret, asked["state"], asked["nonce"], asked["code_challenge"]}) == 4
    again = parse_qs(urlsplit(await begin(client)).query)
    assert all(again[name] != [asked[name]] for name in ("state", "nonce", "code_challenge"))


async def test_the_cookie_is_for_encrypted_connections_where_the_service_has_them(
    desk: Office, fake: FakeProvider
) -> None:
    desk.app.state.context = replace(desk.app.state.context, public_url="https://counterseal.test")
    response = await browser(desk).get("/signin/oidc")
    assert "Secure" in response.headers["set-cookie"]


async def test_the_client_shows_who_it_is_as_the_provider_wants(desk: Office, fake: FakeProvider) -> None:
    await sign_in(browser(desk), fake)
    request = fake.requests[-1]
    scheme, _, pair = request.headers["authorization"].partition(" ")
    # Both are form-encoded before: RFC 6749, 2.3.1.
    assert (scheme, base64.b64decode(pair).decode()) == ("Basic", f"{CLIENT}:secret+of+the+tests%3A+100%25")
    assert "client_secret" not in request.content.decode()
    posting = FakeProvider(metadata={"token_endpoint_auth_methods_supported": ["client_secret_post"]})
    use(desk, posting)
    await sign_in(browser(desk), posting)
    form = parse_qs(posting.requests[-1].content.decode())
    assert form["client_secret"] == [SECRET]
    assert "authorization" not in posting.requests[-1].headers
    public = FakeProvider()
    use(desk, public, secret=None)
    assert (await sign_in(browser(desk), public)).status_code == 303
    form = parse_qs(public.requests[-1].content.decode())
    assert form["client_id"] == [CLIENT]
    assert "client_secret" not in form
    assert "authorization" not in public.requests[-1].headers


async def test_claims_that_the_id_token_leaves_out_are_read_at_the_userinfo_endpoint(
    desk: Office, fake: FakeProvider
) -> None:
    fake.userinfo = fake.person
    fake.person = {"sub": ANA["sub"]}
    client = browser(desk)
    await sign_in(client, fake)
    assert (await who(desk, client)).username == "ana.example"


async def test_userinfo_of_somebody_else_is_refused(desk: Office, fake: FakeProvider) -> None:
    fake.userinfo = {**ANA, "sub": "somebody-else"}
    fake.person = {"sub": ANA["sub"]}
    refused(await sign_in(browser(desk), fake), 403, DOES_NOT_HOLD)


async def test_the_sign_in_page_offers_both_ways(desk: Office, fake: FakeProvider) -> None:
    html = (await browser(desk).get("/signin?next=/stats")).text
    assert 'href="/signin/oidc?next=%2Fstats"' in html
    assert "Sign in with login.example.com" in html
    assert 'name="password"' in html
    assert fake.requests == []


async def test_without_a_provider_there_is_no_such_way(desk: Office) -> None:
    assert "/signin/oidc" not in (await browser(desk).get("/signin")).text
    for path in ("/signin/oidc", "/signin/oidc/callback?code=1&state=2"):
        assert (await browser(desk).get(path)).status_code == 404


async def test_whoever_is_signed_in_stays_so(desk: Office, fake: FakeProvider) -> None:
    client = browser(desk)
    await sign_in(client, fake)
    response = await client.get("/signin/oidc?next=/stats")
    assert (response.status_code, response.headers["location"]) == (303, "/stats")


@pytest.mark.parametrize(
    "target", ["//evil.example", "https://evil.example/", "/\\evil.example", "javascript:alert(1)"]
)
async def test_nobody_is_sent_elsewhere_afterwards(desk: Office, fake: FakeProvider, target: str) -> None:
    assert (await sign_in(browser(desk), fake, target)).headers["location"] == "/"


async def test_signing_out_ends_our_session_and_offers_the_providers(desk: Office, fake: FakeProvider) -> None:
    client = browser(desk)
    await sign_in(client, fake)
    secret = client.cookies[COOKIE]
    token = hidden((await client.get("/")).text, "csrf")
    out = await client.post("/signout", data={"csrf": token})
    assert await desk.ledger.principals.session(secret) is None
    html = (await client.get(out.headers["location"])).text
    assert (
        f'href="{ISSUER}/end?client_id={CLIENT}&amp;post_logout_redirect_uri=http%3A%2F%2Fcounterseal.test%2Fsignin"'
        in html
    )
    without = FakeProvider(metadata={"end_session_endpoint": None})
    use(desk, without)
    assert "Sign out there too" not in (await client.get(out.headers["location"])).text


async def test_a_local_session_ends_without_the_provider(desk: Office, fake: FakeProvider) -> None:
    client = browser(desk)
    token = hidden((await client.get("/signin")).text, "csrf")
    await client.post("/signin", data={"csrf": token, "username": "ana", "password": PASSWORD, "next": "/"})
    out = await client.post("/signout", data={"csrf": hidden((await client.get("/")).text, "csrf")})
    assert out.headers["location"] == "/signin?next=%2F"
    assert fake.requests == []


# The response


async def test_a_response_is_taken_once(desk: Office, fake: FakeProvider) -> None:
    client = browser(desk)
    answer = fake.authorize(await begin(client))
    secret = client.cookies[STATE]
    assert (await come_back(client, answer)).status_code == 303
    # Somebody who has both the address and the cookie comes again.
    other = browser(desk, cookies={STATE: secret})
    refused(await come_back(other, answer), 400, "was used already")


async def test_a_code_is_taken_once_whoever_brings_it(desk: Office, fake: FakeProvider) -> None:
    first, second = browser(desk), browser(desk)
    answer = fake.authorize(await begin(first))
    await come_back(first, answer)
    own = fake.authorize(await begin(second))
    refused(await come_back(second, {**own, "code": answer["code"]}), 403, "no longer knows this sign-in")


async def test_a_code_of_another_sign_in_is_worth_nothing(desk: Office, fake: FakeProvider) -> None:
    """What somebody got for themself is injected into another's browser: PKCE tells the two apart."""
    attacker, victim = browser(desk), browser(desk)
    stolen = fake.authorize(await begin(attacker))
    own = fake.authorize(await begin(victim))
    refused(await come_back(victim, {**own, "code": stolen["code"]}), 403, "no longer knows this sign-in")


async def test_a_response_to_another_browser_is_refused(desk: Office, fake: FakeProvider) -> None:
    answer = fake.authorize(await begin(browser(desk)))
    refused(await come_back(browser(desk), answer), 400, "was not begun in this browser")
    other = browser(desk)
    await begin(other)
    refused(await come_back(other, answer), 400, "was not begun in this browser")
    assert fake.asked("/token") == 0


async def test_a_sign_in_that_took_too_long_is_refused(desk: Office, fake: FakeProvider) -> None:
    client = browser(desk)
    answer = fake.authorize(await begin(client))
    await desk.ledger.system.execute("UPDATE sign_ins SET expires_at = now()")
    refused(await come_back(client, answer), 400, "took too long")


@pytest.mark.parametrize(
    ("change", "status", "sentence"),
    [
        ({"iss": "https://other.example"}, 403, DOES_NOT_HOLD),
        ({"iss": f"{ISSUER}/"}, 403, DOES_NOT_HOLD),
        ({"iss": None}, 403, DOES_NOT_HOLD),
        ({"code": None}, 403, DOES_NOT_HOLD),
        ({"code": ""}, 403, DOES_NOT_HOLD),
        ({"code": None, "error": "access_denied", "error_description": "<b>no</b>"}, 403, "cancelled or refused"),
        ({"code": None, "error": "server_error", "error_description": "<b>no</b>"}, 502, "could not sign you in"),
        ({"state": None}, 400, "Begin again"),
        ({"state": "x"}, 400, "Begin again"),
        ({"code": "a\0b"}, 400, "Begin again"),
    ],
)
async def test_a_response_that_does_not_hold(
    desk: Office, fake: FakeProvider, change: dict[str, str | None], status: int, sentence: str
) -> None:
    client = browser(desk)
    answer = fake.authorize(await begin(client)) | change
    sent = {name: value for name, value in answer.items() if value is not None}
    refused(await come_back(client, sent), status, sentence)
    assert fake.asked("/token") == 0


async def test_a_parameter_that_is_there_twice_is_refused(desk: Office, fake: FakeProvider) -> None:
    client = browser(desk)
    answer = fake.authorize(await begin(client))
    doubled = f"/signin/oidc/callback?{urlencode(answer)}&code=other"
    refused(await client.get(doubled), 400, "Begin again")


async def test_only_getting_it_takes_the_response(desk: Office, fake: FakeProvider) -> None:
    """A link scanner that asks with HEAD uses nothing up."""
    client = browser(desk)
    answer = fake.authorize(await begin(client))
    assert (await client.head(f"/signin/oidc/callback?{urlencode(answer)}")).status_code == 405
    assert (await come_back(client, answer)).status_code == 303


async def test_an_address_begins_only_so_many(desk: Office, fake: FakeProvider) -> None:
    client = browser(desk)
    for _ in range(30):
        await begin(client)
    response = await client.get("/signin/oidc")
    assert response.status_code == 429
    assert int(response.headers["retry-after"]) > 0


# What the provider may not say; all of it is in test_openid_provider.py


@pytest.mark.parametrize("claims", [{"nonce": "another"}, {"aud": "another-client"}, {"exp": 1}])
async def test_an_id_token_for_another_purpose_is_refused(
    desk: Office, fake: FakeProvider, claims: dict[str, Any]
) -> None:
    fake.claims = claims
    refused(await sign_in(browser(desk), fake), 403, DOES_NOT_HOLD)


# A provider that is away, or not one


def _no_connection(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("https://login.example.com/token?code=secret", request=request)


CONFIGURATION = "/.well-known/openid-configuration"
AWAY = "cannot be reached, or does not answer as it should"


async def test_a_provider_that_is_away_is_a_page_that_says_so(desk: Office, fake: FakeProvider) -> None:
    fake.answers[CONFIGURATION] = _no_connection
    client = browser(desk)
    with structlog.testing.capture_logs() as logs:
        response = await client.get("/signin/oidc")
    assert response.status_code == 503
    assert AWAY in response.text
    assert 'name="password"' in response.text
    assert COOKIE not in response.headers["set-cookie"]
    assert [(each["event"], each["problem"]) for each in logs] == [("oidc_provider_unavailable", "not_answered")]
    assert "secret" not in str(logs)
    # What was wrong is asked again.
    fake.answers.clear()
    assert (await sign_in(client, fake)).status_code == 303


async def test_a_provider_that_goes_away_meanwhile_is_one_too(desk: Office, fake: FakeProvider) -> None:
    client = browser(desk)
    answer = fake.authorize(await begin(client))
    fake.answers["/token"] = lambda request: httpx.Response(500, text="Traceback")
    refused(await come_back(client, answer), 503, AWAY)


# Who it is


async def test_a_person_is_the_subject_whatever_they_call_themselves(desk: Office, fake: FakeProvider) -> None:
    first, second = browser(desk), browser(desk)
    await sign_in(first, fake)
    fake.person |= {"preferred_username": "ben", "email": "ben@example.com", "name": "Ben Example"}
    await sign_in(second, fake)
    one, two = await who(desk, first), await who(desk, second)
    assert (two.username, two.person_id) == (one.username, one.person_id)
    # What they were called before, they are still called.
    assert two.names >= {"ana.example", "ana@example.com", "ben@example.com"}


@pytest.mark.parametrize("name", ["ana", "ANA"])
async def test_a_name_that_is_taken_is_never_merged(desk: Office, fake: FakeProvider, name: str) -> None:
    fake.person["preferred_username"] = name
    refused(await sign_in(browser(desk), fake), 403, "belongs to another account here")
    (row,) = [row for row in await desk.ledger.principals.users() if row["username"] == "ana"]
    assert row["identities"] == []
    assert await desk.ledger.principals.identities.link("ana", ISSUER, ANA["sub"]) == "linked"
    client = browser(desk)
    await sign_in(client, fake)
    assert (await who(desk, client)).username == "ana"
    # The password goes on.
    assert await desk.ledger.principals.sign_in("ana", PASSWORD) is not None


async def test_a_name_that_somebody_is_known_by_is_taken_too(desk: Office, fake: FakeProvider) -> None:
    await desk.ledger.principals.identities.add_names("ben", ["ANA.example"])
    refused(await sign_in(browser(desk), fake), 403, "belongs to another account here")


async def test_the_same_subject_of_another_issuer_is_somebody_else(desk: Office, fake: FakeProvider) -> None:
    assert await desk.ledger.principals.identities.link("ana", "https://other.example", ANA["sub"]) == "linked"
    client = browser(desk)
    await sign_in(client, fake)
    assert (await who(desk, client)).username == "ana.example"


@pytest.mark.parametrize(
    "groups",
    [None, [], "", ["Refund-Approvers"], ["refund-approvers "], [["refund-approvers"]], {"refund-approvers": 1}],
)
async def test_without_a_group_that_grants_a_role_there_is_no_account(
    desk: Office, fake: FakeProvider, groups: Any
) -> None:
    fake.person["groups"] = groups
    fake.userinfo = fake.person
    before = len(await desk.ledger.principals.users())
    refused(await sign_in(browser(desk), fake), 403, "You have no role here. Ask ")
    assert len(await desk.ledger.principals.users()) == before


async def test_roles_follow_the_groups_at_every_sign_in(desk: Office, fake: FakeProvider) -> None:
    first = browser(desk)
    await sign_in(first, fake)
    fake.person["groups"] = ["platform", "refund-approvers"]
    await sign_in(browser(desk), fake)
    # For sessions that are open, too.
    assert (await who(desk, first)).roles == {"finance", "operator"}
    fake.person["groups"] = []
    refused(await sign_in(browser(desk), fake), 403, "You have no role here")
    assert (await who(desk, first)).roles == frozenset()


async def test_without_a_mapping_roles_are_the_operators_to_say(desk: Office, fake: FakeProvider) -> None:
    use(desk, fake, roles={})
    refused(await sign_in(browser(desk), fake), 403, "You have no role here")
    await desk.ledger.principals.identities.link("olga", ISSUER, ANA["sub"])
    client = browser(desk)
    await sign_in(client, fake)
    assert (await who(desk, client)).roles == {"operator"}


async def test_disabling_holds_at_once(desk: Office, fake: FakeProvider) -> None:
    client = browser(desk)
    await sign_in(client, fake)
    await desk.ledger.principals.disable_user("ana.example")
    assert (await client.get("/")).status_code == 303
    refused(await sign_in(browser(desk), fake), 403, "Your account here is disabled.")


@pytest.mark.parametrize("name", [None, "", "a b", "é", "x" * 65, "../x", "<script>"])
async def test_a_name_that_no_account_can_have_makes_none(desk: Office, fake: FakeProvider, name: str | None) -> None:
    fake.person["preferred_username"] = name
    fake.userinfo = fake.person
    refused(await sign_in(browser(desk), fake), 403, "gives no name that an account here can have")


@pytest.mark.parametrize("verified", [False, None, "true", 1])
async def test_an_account_is_called_by_a_verified_address_alone(
    desk: Office, fake: FakeProvider, verified: Any
) -> None:
    use(desk, fake, username_claim="email")
    fake.person["email_verified"] = verified
    refused(await sign_in(browser(desk), fake), 403, "has not verified your e-mail address")
    fake.person["email_verified"] = True
    client = browser(desk)
    await sign_in(client, fake)
    assert (await who(desk, client)).username == "ana@example.com"


async def test_nobody_signs_in_to_such_an_account_with_a_password(desk: Office, fake: FakeProvider) -> None:
    await sign_in(browser(desk), fake)
    for password in ("", "none", PASSWORD):
        assert await desk.ledger.principals.sign_in("ana.example", password) is None


async def test_two_first_sign_ins_at_once_make_one_account(desk: Office, fake: FakeProvider) -> None:
    clients = [browser(desk) for _ in range(4)]
    done = await asyncio.gather(*(sign_in(client, fake) for client in clients))
    assert [each.status_code for each in done] == [303] * 4
    assert len({(await who(desk, client)).person_id for client in clients}) == 1
