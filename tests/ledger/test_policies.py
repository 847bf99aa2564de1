"""Published policies: signed, kept for good, used only as they were signed, and changed by as many as it takes."""

from dataclasses import replace

import asyncpg
import pytest

from activities.policies import Published, checked_text, document_of, terms_of_change
from api.changing import Changed, Changing
from api.deciding import Decider
from ledger.database import Database, connect
from ledger.keys import MasterKey
from ledger.ledger import Ledger
from ledger.policies import STREAM, PolicyConflict
from ledger.publishing import sign
from ledger.rewrapping import POLICIES
from policy.in_force import PolicyUnusable
from policy.load import DEFAULT_POLICY
from policy.model import Policy
from runtime.policy import load_checked
from schemas.events import PolicyProposed, PolicyPublished, PolicyVoted
from tests.ledger.refunds import MASTER
from tests.passwords import quick_hashes
from tools.catalog import Catalog

CATALOG = Catalog.load()
TEXT = """
name: test
defaults: {{approvers: finance, deadline: 24h{defaults}}}
tools:
  issue_refund:
    thresholds: {{much_cents: {much}}}
    rules: [{{name: much, hold: finance, when: args.amount_cents > thresholds.much_cents, because: it is much}}]
    otherwise: notify
"""
TWO = ", changes: {people: 2, group: leads}"


def policy(much: int = 100, defaults: str = "") -> Policy:
    return checked_text(TEXT.format(much=much, defaults=defaults), "test.yaml", CATALOG)


class Clock:
    """A clock that is moved by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def source(ledger: Ledger, clock: Clock) -> Published:
    return Published(ledger.policies, CATALOG, clock)


async def publish(ledger: Ledger, new: Policy, base: int) -> None:
    await ledger.policies.publish(document_of(new), base=base, by=["olga"])


async def test_what_is_published_is_in_force_within_a_second(ledger: Ledger, source: Published, clock: Clock) -> None:
    with pytest.raises(PolicyUnusable, match="no policy was ever published"):
        await source.now()
    await publish(ledger, policy(100), 0)
    clock.now += 0.5
    with pytest.raises(PolicyUnusable):
        await source.now()
    clock.now += 0.5
    first = await source.now()
    assert first.version == policy(100).version
    assert await source.now() is first, "one policy, until another is published"
    await publish(ledger, policy(200), 1)
    clock.now += 1
    assert (await source.now()).tools["issue_refund"].thresholds == {"much_cents": 200}
    (one, two) = [event for _, event in await ledger.calls.events(STREAM)]
    assert isinstance(one, PolicyPublished)
    assert isinstance(two, PolicyPublished)
    assert (two.number, two.people, two.digest) == (2, ("olga",), document_of(policy(200)).digest)


async def test_the_default_policy_is_read_again_as_it_was_stored(ledger: Ledger, source: Published) -> None:
    default = load_checked(DEFAULT_POLICY, CATALOG)
    await publish(ledger, default, 0)
    stored = await source.now()
    assert (stored.version, stored.document) == (default.version, default.document)
    assert await ledger.policies.source(default.version) == document_of(default).source


async def test_nothing_is_published_over_what_nobody_saw(ledger: Ledger) -> None:
    await publish(ledger, policy(100), 0)
    for base in (0, 2):
        with pytest.raises(PolicyConflict, match="meanwhile"):
            await publish(ledger, policy(200), base)
    with pytest.raises(PolicyConflict, match="is in force"):
        await publish(ledger, policy(100), 1)
    forged = replace(document_of(policy(100)), source="{}")
    with pytest.raises(PolicyConflict, match="another text is stored"):
        await ledger.policies.publish(forged, base=1, by=["olga"])
    assert await ledger.policies.number() == 1


@pytest.mark.parametrize("table", ["policies", "publications"])
async def test_what_was_published_cannot_be_changed(ledger: Ledger, table: str) -> None:
    await publish(ledger, policy(), 0)
    for statement in (f"UPDATE {table} SET version = version", f"DELETE FROM {table}"):
        with pytest.raises((asyncpg.RaiseError, asyncpg.InsufficientPrivilegeError)):
            await ledger.system.execute(statement)


async def _forge(ledger: Ledger, number: int, version: str, token: str) -> None:
    insert = "INSERT INTO publications (number, version, token) VALUES ($1, $2, $3)"
    await ledger.system.execute(insert, number, version, token)


async def test_what_is_not_as_it_was_signed_is_not_used_nor_what_was_before(
    ledger: Ledger, source: Published, clock: Clock
) -> None:
    strict, loose = policy(100), policy(40_000)
    await publish(ledger, strict, 0)
    assert (await source.now()).version == strict.version
    signed = await ledger.system.fetchval("SELECT token FROM publications")
    publication = (await ledger.policies.publications(1))[0].publication
    assert publication is not None
    await ledger.system.execute("INSERT INTO policies VALUES ($1, $2)", loose.version, document_of(loose).source)
    named = publication.model_copy(update={"number": 2, "policy_version": loose.version})
    elsewhere = sign(named, MasterKey(b"somebody else's key of 32 bytes."))
    for number, token in enumerate((signed, "no token", elsewhere), start=2):
        await _forge(ledger, number, loose.version, token)
        clock.now += 1
        with pytest.raises(PolicyUnusable, match=f"no key here signed publication {number}") as raised:
            await source.now()
        assert raised.value.version == loose.version
    with pytest.raises(PolicyUnusable):
        await terms_of_change(ledger.policies, CATALOG)
    # It takes the place of what cannot be used, and is used at once.
    await publish(ledger, policy(300), 4)
    clock.now += 1
    assert (await source.now()).version == policy(300).version


async def test_a_text_that_is_not_the_signed_one_is_not_used(ledger: Ledger, source: Published) -> None:
    """A version has 48 bits of the digest: what is signed is the whole of it."""
    document = replace(document_of(policy()), digest="0" * 64)
    await ledger.policies.publish(document, base=0, by=["olga"])
    with pytest.raises(PolicyUnusable, match="not the one that was signed"):
        await source.now()


async def test_what_does_not_fit_the_tools_of_a_process_is_not_used(ledger: Ledger, clock: Clock) -> None:
    await publish(ledger, policy(), 0)
    none = Published(ledger.policies, Catalog([]), clock)
    with pytest.raises(PolicyUnusable, match="there is no such tool"):
        await none.now()


async def test_a_ledger_that_was_set_back_is_noticed_by_who_knew_more(
    ledger: Ledger, source: Published, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (0, 1):
        await publish(ledger, policy(100 + number), number)
    await source.now()

    async def before() -> int:
        return 1

    monkeypatch.setattr(type(ledger.policies), "number", lambda self: before())
    clock.now += 1
    with pytest.raises(PolicyUnusable, match="publication 2 was in force, and 1 is the last"):
        await source.now()


async def test_another_master_key_signs_it_anew(ledger: Ledger, database: str) -> None:
    await publish(ledger, policy(), 0)
    old = MASTER.current
    assert (await ledger.rewrapping.held()).by(old.key_id)[POLICIES] == 1
    connected: Database = await connect(database, maximum=2)
    new = b"another key that has 32 bytes..."
    rotated = Ledger.over(connected, MasterKey(new, bytes(range(32))))
    try:
        result = await rotated.rewrapping.rewrap()
        assert result.done[POLICIES] == 1
        assert (await rotated.rewrapping.held()).by(old.key_id).get(POLICIES) is None
        assert (await rotated.rewrapping.rewrap()).done[POLICIES] == 0, "it is signed under the current one"
        alone = Ledger.over(connected, MasterKey(new))
        assert (await Published(alone.policies, CATALOG).now()).version == policy().version
    finally:
        await connected.close()


class People:
    """People who change the policy, by accounts of their own."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.changing = Changing(ledger.policies, CATALOG, "acme")

    async def add(self, name: str, *roles: str, tenant: str = "acme") -> None:
        await self._ledger.principals.add_user(tenant, name, name.title(), "a long example password", list(roles))

    async def who(self, name: str, tenant: str = "acme") -> Decider:
        _, token = await self._ledger.principals.issue("approver", tenant, name)
        holder = await self._ledger.principals.authenticate(token)
        assert holder is not None
        return Decider.of(holder)

    async def propose(self, name: str, new: Policy, reason: str = "as agreed") -> Changed:
        return await self.changing.propose_policy(await self.who(name), new, reason=reason)

    async def agree(self, name: str, made: Changed) -> Changed:
        assert made.proposal is not None
        return await self.changing.say(
            await self.who(name), made.proposal.proposal_id, made.proposal.version, "agree", reason=""
        )


@pytest.fixture
async def people(ledger: Ledger) -> People:
    people = People(ledger)
    with quick_hashes():
        for name in ("ana", "ben", "cleo"):
            await people.add(name, "leads")
        await people.add("dan", "finance")
    await publish(ledger, policy(100, TWO), 0)
    return people


async def test_a_change_takes_as_many_people_as_the_policy_in_force_says(ledger: Ledger, people: People) -> None:
    made = await people.propose("ana", policy(200, TWO))
    assert made.proposal is not None
    assert made.proposal.status == "open"
    assert await ledger.policies.number() == 1
    assert (await people.agree("ana", made)).refused == "spoken"
    assert (await people.agree("dan", made)).refused == "not_yours"
    agreed = await people.agree("ben", made)
    assert agreed.proposal is not None
    assert agreed.proposal.status == "in force"
    newest = await ledger.policies.in_force()
    assert newest is not None
    assert newest.publication is not None
    assert (newest.version, newest.publication.people) == (policy(200, TWO).version, ("ana", "ben"))
    assert (await people.agree("cleo", made)).refused == "conflict"
    events = [event for _, event in await ledger.calls.events("proposals/*")]
    assert [type(event) for event in events] == [PolicyProposed, PolicyVoted]
    # A policy that lets one person change it takes two people itself, once.
    alone = await people.agree("cleo", await people.propose("ben", policy(200)))
    assert alone.proposal is not None
    assert alone.proposal.status == "in force"
    assert (await people.propose("ana", policy(300))).refused == "not_yours"
    await people.add("olga", "operator")
    by_herself = await people.propose("olga", policy(300))
    assert by_herself.proposal is not None
    assert by_herself.proposal.status == "in force"


async def test_one_person_is_one_whatever_the_name(ledger: Ledger, people: People) -> None:
    await people.add("ana.two", "leads")
    made = await people.propose("ana", policy(200, TWO))
    await ledger.principals.identities.join("ana", "ana.two")
    assert (await people.agree("ana.two", made)).refused == "spoken"
    assert await ledger.policies.number() == 1


async def test_whoever_left_since_they_agreed_does_not_count(ledger: Ledger, people: People) -> None:
    made = await people.propose("ana", policy(200, TWO))
    await ledger.principals.disable_user("ana")
    waiting = await people.agree("ben", made)
    assert waiting.proposal is not None
    assert waiting.proposal.status == "open", "who has no account any more does not count"
    third = await people.agree("cleo", made)
    assert third.proposal is not None
    assert third.proposal.status == "in force"


async def test_an_objection_ends_it_and_another_change_overtakes_it(ledger: Ledger, people: People) -> None:
    one, two, three = [await people.propose("ana", policy(much, TWO)) for much in (200, 300, 400)]
    assert one.proposal is not None
    assert three.proposal is not None
    who = await people.who("ben")
    no_reason = await people.changing.say(who, one.proposal.proposal_id, one.proposal.version, "object", reason=" ")
    assert no_reason.refused == "reason_required"
    ended = await people.changing.say(who, one.proposal.proposal_id, one.proposal.version, "object", reason="too much")
    assert ended.proposal is not None
    assert ended.proposal.status == "objected to"
    assert (await people.agree("cleo", one)).refused == "conflict"
    assert (await people.agree("cleo", two)).refused is None
    assert (await people.agree("cleo", three)).refused == "conflict"
    overtaken = await ledger.policies.proposal(three.proposal.proposal_id)
    assert overtaken is not None
    assert overtaken.status == "overtaken"


async def test_what_is_agreed_to_is_named(people: People) -> None:
    made = await people.propose("ana", policy(200, TWO))
    assert made.proposal is not None
    who = await people.who("ben")
    for proposal_id, version in ((made.proposal.proposal_id, "test@000000000000"), ("pol_x", made.proposal.version)):
        assert (await people.changing.say(who, proposal_id, version, "agree", reason="")).refused == "not_found"


async def test_only_people_of_the_tenant_that_runs_the_service_change_its_policy(people: People) -> None:
    await people.add("gina", "leads", tenant="globex")
    who = await people.who("gina", "globex")
    assert (await people.changing.propose_policy(who, policy(200, TWO), reason="mine")).refused == "not_yours"


async def test_a_policy_that_is_wrong_is_not_proposed(people: People) -> None:
    wrong = await people.changing.propose(await people.who("ana"), "name: example", "x.yaml", reason="why")
    assert (wrong.refused, wrong.because) == ("invalid", "x.yaml: defaults: is missing")
