"""What a declared tool makes of an answer: nothing is believed that is not written down."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

import tools
from api.pages.fields import sent_fields
from gateways.http import Answer, Answered, NotAnswered
from gateways.protocols import Helpdesk, OrderSystem, PaymentGateway, Systems, SystemUnavailable
from schemas.calls import Binding
from schemas.codes import Code
from schemas.effects import Absent, Confirmed, Effect, Exchange, Failed
from tests.tools.test_http_documents import MANIFEST, READ, READ_MANIFEST, WRITE
from tools.catalog import Catalog
from tools.http.read import HttpRead
from tools.http.write import HttpWrite
from tools.protocol import Refusal

BINDING = Binding(tenant="t", run_id="run_1", agent_id="bot", actor_id="user", customer_id="cus_ada")
RECIPIENT, ACCOUNT = "rcp_00000000000a", "acc_000000000001"
ARGUMENTS: dict[str, Any] = {"recipient": RECIPIENT, "amount_cents": 4999, "currency": "EUR", "date": "2026-12-24"}
PAID = {
    "payment_id": "pmt_1",
    "recipient_id": RECIPIENT,
    "amount": 4999,
    "currency": "EUR",
    "state": "accepted",
    "metadata": {"counterseal_operation": "op_1"},
}


class Bank:
    """Answers by method and path, and remembers what it was asked."""

    system = "bank"

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[tuple[str, str, dict[str, Any]]] = []

    async def exchange(self, method: str, template: str, **given: Any) -> Answer:
        self.asked.append((method, template, given))
        answer = self.answers[f"{method}_{template.split('/')[1]}".lower()]
        exchange = Exchange(
            system="bank", method=method, path_template=template, reached="response_received", elapsed_ms=1
        )
        if isinstance(answer, str):
            reached: Any = "nothing_sent" if answer == "connect_failed" else "bytes_sent"
            return NotAnswered(exchange.model_copy(update={"reached": reached, "problem": answer}))
        status, content = answer
        return Answered(status, content, None, exchange)

    @property
    def systems(self) -> Systems:
        remotes = {"bank": cast(Any, self)}
        return Systems(cast(PaymentGateway, None), cast(OrderSystem, None), cast(Helpdesk, None), remotes)


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    root: Path = tmp_path_factory.mktemp("tools")
    for name, manifest, document in (("send_money", MANIFEST, WRITE), ("list_recipients", READ_MANIFEST, READ)):
        (root / name).mkdir()
        (root / name / "manifest.yaml").write_text(manifest)
        (root / name / "http.yaml").write_text(document)
    path = list(tools.__path__)
    yield Catalog.load(root)
    tools.__path__[:] = path


@pytest.fixture
def send_money(catalog: Catalog) -> HttpWrite:
    entry = catalog.get("send_money")
    assert entry is not None
    assert isinstance(entry.tool, HttpWrite)
    return entry.tool


@pytest.fixture
def list_recipients(catalog: Catalog) -> HttpRead:
    entry = catalog.get("list_recipients")
    assert entry is not None
    assert isinstance(entry.tool, HttpRead)
    return entry.tool


def effect() -> Effect:
    facts: Any = {"recipient": {"recipient_id": RECIPIENT}, "account": {"account_id": ACCOUNT}}
    return Effect(
        request_id="act_1",
        tool="send_money",
        operation_id="op_1",
        gateway_key="key_1",
        target={**ARGUMENTS, "facts": facts},
        intended_at=datetime.now(UTC),
    )


def changed(**changes: Any) -> dict[str, Any]:
    return PAID | changes


ANSWERS: dict[str, tuple[Any, Any]] = {
    "ours": ((201, PAID), Confirmed),
    "more than we know": ((201, changed(more=[1])), Confirmed),
    "another status": ((200, PAID), "http_200"),
    "another amount": ((201, changed(amount=4998)), "mismatched"),
    "an amount as text": ((201, changed(amount="4999")), "mismatched"),
    "an amount as a decimal": ((201, changed(amount=4999.0)), "mismatched"),
    "true for one": ((201, changed(amount=True)), "mismatched"),
    "another currency": ((201, changed(currency="USD")), "mismatched"),
    "another operation": ((201, changed(metadata={"counterseal_operation": "op_2"})), "mismatched_operation"),
    "no operation": ((201, changed(metadata=None)), "mismatched_operation"),
    "no id": ((201, changed(payment_id=None)), "unreadable"),
    "an id of nothing plain": ((201, changed(payment_id="../1")), "unreadable"),
    "a state that nobody knows": ((201, changed(state="perhaps")), "unreadable"),
    "no JSON": ((201, None), "mismatched_operation"),
    "a list": ((201, [PAID]), "mismatched_operation"),
    "not enough": ((409, {"error": {"code": "insufficient_funds"}}), Code.INVALID_STATE),
    "refused": ((422, {"error": {"code": "invalid_amount"}}), Code.REMOTE_REFUSED),
    "a refusal of something else": ((422, {"error": {"code": "unheard_of"}}), "http_422"),
    "a refusal by nobody": ((422, None), "http_422"),
    "a conflict": ((409, {"error": {"code": "idempotency_conflict"}}), "http_409"),
    "not authorised": ((401, {"error": {"code": "unauthorized"}}), Code.AUTH_FAILED),
    "down": ((503, {"error": {"code": "invalid_amount"}}), "http_503"),
    "nothing sent": ("connect_failed", Code.NETWORK_UNREACHABLE),
    "lost": ("timeout", "timeout"),
}


@pytest.mark.parametrize("case", ANSWERS)
async def test_what_an_answer_means(send_money: HttpWrite, case: str) -> None:
    answer, expected = ANSWERS[case]
    bank = Bank(post_payments=answer)
    outcome = await send_money.execute(effect(), bank.systems)
    if expected is Confirmed:
        assert isinstance(outcome, Confirmed)
        result = {"payment_id": "pmt_1", "amount_cents": 4999, "currency": "EUR", "state": "accepted"}
        assert (outcome.remote_id, outcome.result) == ("pmt_1", result)
    elif isinstance(expected, Code):
        assert isinstance(outcome, Failed)
        assert outcome.code is expected
    else:
        assert (outcome.kind, outcome.exchange.problem) == ("unknown", expected)
    ((method, template, given),) = bank.asked
    assert (method, template, given["idempotency_key"]) == ("POST", "/payments", "key_1")
    assert given["json"] == {
        "recipient_id": RECIPIENT,
        "amount": 4999,
        "currency": "EUR",
        "execution_date": "2026-12-24",
        "metadata": {"counterseal_operation": "op_1"},
    }


def page(*entries: Any, **more: Any) -> tuple[int, Any]:
    return 200, {"payments": list(entries), "has_more": False, **more}


OTHERS = changed(metadata={"counterseal_operation": "op_2"})
LOOKS: dict[str, tuple[Any, Any]] = {
    "found": (page(PAID), Confirmed),
    "found among others": (page(OTHERS, PAID), Confirmed),
    "nothing": (page(), Absent),
    "only others": (page(OTHERS), Absent),
    "an incomplete list": (page(has_more=True), "incomplete"),
    "a list that does not say": ((200, {"payments": []}), "incomplete"),
    "found twice": (page(PAID, PAID), "found_twice"),
    "rejected since": (page(changed(state="rejected")), Failed),
    "another amount": (page(changed(amount=1)), "mismatched"),
    "no list": ((200, {"has_more": False}), "unreadable"),
    "down": ((503, None), "http_503"),
    "lost": ("timeout", "timeout"),
}


@pytest.mark.parametrize("case", LOOKS)
async def test_how_it_is_looked_up(send_money: HttpWrite, case: str) -> None:
    answer, expected = LOOKS[case]
    bank = Bank(get_payments=answer)
    found = await send_money.inspect(effect(), bank.systems)
    if isinstance(expected, str):
        assert (found.kind, found.exchange.problem) == ("unknown", expected)
    else:
        assert isinstance(found, expected)
    assert bank.asked[0][2]["query"] == {"operation": "op_1"}


HERS = {"recipient_id": RECIPIENT, "customer_id": "cus_ada", "added_at": "2026-01-02T03:04:05+00:00", "payments": 3}
ACCOUNTS = (200, {"account_id": ACCOUNT, "balance": 10_000, "currency": "EUR"})
UNREADABLE = [
    (500, None),
    (404, None),
    (404, {"error": {"code": "no_such_path"}}),
    (200, None),
    (200, []),
    (200, HERS | {"added_at": "yesterday"}),
    (200, HERS | {"payments": "3"}),
    "timeout",
]


@pytest.mark.parametrize("answer", UNREADABLE)
async def test_a_fact_that_cannot_be_believed_is_none(send_money: HttpWrite, catalog: Catalog, answer: Any) -> None:
    arguments = catalog.validate_arguments("send_money", ARGUMENTS | {"idempotency_key": "0" * 32})
    systems = Bank(get_recipients=answer, get_customers=ACCOUNTS).systems
    with pytest.raises(SystemUnavailable):
        await send_money.read_facts(cast(Any, arguments), BINDING, systems)


async def test_facts_are_the_customers_own(send_money: HttpWrite, catalog: Catalog) -> None:
    arguments = cast(Any, catalog.validate_arguments("send_money", ARGUMENTS | {"idempotency_key": "0" * 32}))

    async def read(recipient: Any, account: Any = ACCOUNTS) -> Any:
        bank = Bank(get_recipients=recipient, get_customers=account)
        return await send_money.read_facts(arguments, BINDING, bank.systems)

    facts = await read((200, HERS))
    content = json.loads(facts.model_dump_json())
    assert content["account"] == {"account_id": ACCOUNT, "balance_cents": 10_000, "currency": "EUR"}
    assert content["recipient"]["age_minutes"] > 300_000
    assert send_money.matters(facts) == {
        "recipient.recipient_id": RECIPIENT,
        "account.account_id": ACCOUNT,
        "account.currency": "EUR",
    }
    claim = send_money.claim(arguments, facts)
    assert claim is not None
    assert (claim.resource, claim.amount, claim.available) == (f"account:{ACCOUNT}", 4999, 10_000)

    another = await read((200, HERS | {"customer_id": "cus_eve"}))
    nobody = await read((404, {"error": {"code": "recipient_not_found"}}))
    assert isinstance(another, Refusal)
    assert another == nobody
    poor = await read((200, HERS), (404, {"error": {"code": "account_not_found"}}))
    assert isinstance(poor, Refusal)
    assert (poor.code, poor.explanation.values) == (Code.INVALID_STATE, {"because": "this customer has no account"})


async def test_what_people_are_shown_of_what_was_sent_has_no_word_of_the_agents(
    send_money: HttpWrite, catalog: Catalog
) -> None:
    given = ARGUMENTS | {"idempotency_key": "0" * 32, "reference": "my words"}
    arguments = cast(Any, catalog.validate_arguments("send_money", given))
    bank = Bank(get_recipients=(200, HERS), get_customers=ACCOUNTS, post_payments=(201, PAID))
    facts = cast(Any, await send_money.read_facts(arguments, BINDING, bank.systems))
    target = send_money.target(arguments, facts)
    shown = "".join(field.value for field in sent_fields(target, send_money.untrusted_arguments))
    assert "my words" not in shown
    assert "49.99" in shown
    assert "0" * 32 not in json.dumps(target)
    await send_money.execute(effect().model_copy(update={"target": target}), bank.systems)
    assert bank.asked[-1][2]["json"]["reference"] == "my words"


async def test_a_read_answers_its_list_and_how_many_there_are(list_recipients: HttpRead, catalog: Catalog) -> None:
    arguments = cast(Any, catalog.validate_arguments("list_recipients", {"limit": 2}))

    async def read(*answer: Any) -> Any:
        bank = Bank(get_customers=answer)
        found = await list_recipients.read(arguments, BINDING, bank.systems)
        ((_, template, given),) = bank.asked
        assert template == "/customers/{run_customer_id}/recipients"
        assert (given["path"], given["query"]) == ({"run_customer_id": "cus_ada"}, {"limit": "2"})
        return found

    found = await read(200, {"recipients": [{"recipient_id": "a"}, {"recipient_id": "b", "name": "B"}], "total": 5})
    content = {"recipients": [{"recipient_id": "a"}, {"recipient_id": "b", "name": "B"}], "count": 5, "truncated": True}
    assert found.model_dump(mode="json", exclude_none=True) == content
    assert list_recipients.done(arguments, found) == "5 recipients of this customer"
    assert not list_recipients.is_empty(found)
    assert list_recipients.is_empty(await read(200, {"recipients": [], "total": 0}))
    for unreadable in (
        {"recipients": {}, "total": 0},
        {"recipients": [], "total": "0"},
        {"recipients": [1], "total": 1},
    ):
        with pytest.raises(SystemUnavailable):
            await read(200, unreadable)
