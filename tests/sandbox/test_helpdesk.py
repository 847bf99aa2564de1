"""The helpdesk: searching articles, tickets, and the audits that updates leave."""

import secrets
from typing import Any

from tests.sandbox.world import World


def ticket(world: World, **changes: Any) -> int:
    number = secrets.randbelow(2**40) + 10_000
    line = {"id": number, "customer_id": "cus_x", "subject": "Lamp", "description": "It flickers", **changes}
    assert world.helpdesk.put(f"/_tickets/{number}", json=line).status_code == 200
    return number


def shown(world: World, number: int) -> dict[str, Any]:
    return world.helpdesk.get(f"/api/v2/tickets/{number}", params={"include": "users"}).json()


def test_articles_with_most_of_the_words_come_first(world: World) -> None:
    found = world.helpdesk.get(
        "/api/v2/help_center/articles/search", params={"query": "refund payment", "per_page": "2"}
    )
    content = found.json()
    assert content["results"][0]["title"] == "Returns and refunds"
    assert len(content["results"]) <= 2 <= content["count"] + 1
    nothing = world.helpdesk.get("/api/v2/help_center/articles/search", params={"query": "xylophone"}).json()
    assert (nothing["count"], nothing["results"]) == (0, [])
    assert world.helpdesk.get("/api/v2/help_center/articles/search").status_code == 400


def test_a_ticket_names_its_requester_as_the_shop_knows_them(world: World) -> None:
    number = ticket(world, customer_id="cus_ada")
    content = shown(world, number)
    assert content["users"] == [{"id": content["ticket"]["requester_id"], "external_id": "cus_ada", "role": "end-user"}]
    assert "customer_id" not in content["ticket"]
    assert world.helpdesk.get("/api/v2/tickets/1").json()["error"] == "RecordNotFound"


def test_an_update_leaves_an_audit_with_its_metadata_page_by_page(world: World) -> None:
    number = ticket(world)
    for n in range(3):
        update = {"comment": {"body": f"note {n}", "public": n == 2}, "metadata": {"custom": {"operation": str(n)}}}
        answer = world.helpdesk.put(f"/api/v2/tickets/{number}", json={"ticket": update})
        assert answer.json()["audit"]["metadata"]["custom"] == {"operation": str(n)}
    path = f"/api/v2/tickets/{number}/audits"
    first = world.helpdesk.get(path, params={"page[size]": "2"}).json()
    assert (len(first["audits"]), first["meta"]["has_more"]) == (2, True)
    rest = world.helpdesk.get(path, params={"page[size]": "2", "page[after]": first["meta"]["after_cursor"]}).json()
    assert rest["meta"]["has_more"] is False
    bodies = [(each["events"][0]["body"], each["events"][0]["public"]) for each in first["audits"] + rest["audits"]]
    assert bodies == [("note 0", False), ("note 1", False), ("note 2", True)]


def test_a_safe_update_comes_second_to_nobody(world: World) -> None:
    number = ticket(world)
    stamp = shown(world, number)["ticket"]["updated_at"]
    update = {"comment": {"body": "Hello"}, "safe_update": True, "updated_stamp": stamp}
    assert world.helpdesk.put(f"/api/v2/tickets/{number}", json={"ticket": update}).status_code == 200
    again = world.helpdesk.put(f"/api/v2/tickets/{number}", json={"ticket": update})
    assert (again.status_code, again.json()["error"]) == (409, "UpdateConflict")


def test_a_closed_ticket_and_a_body_that_is_none_are_refused(world: World) -> None:
    number = ticket(world, status="closed")
    closed = world.helpdesk.put(f"/api/v2/tickets/{number}", json={"ticket": {"comment": {"body": "Hello"}}})
    assert (closed.status_code, closed.json()["error"]) == (422, "RecordInvalid")
    number = ticket(world)
    assert world.helpdesk.put(f"/api/v2/tickets/{number}", json={"ticket": {}}).status_code == 422
    wrong = {"Authorization": "Bearer wrong"}
    assert world.helpdesk.get(f"/api/v2/tickets/{number}", headers=wrong).status_code == 401
