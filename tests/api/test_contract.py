"""The description of the API, and the real process held to it by schemathesis: with what fits it, and what does not."""

from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import APIOperation, Case, CheckContext, GenerationMode, Response
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import positive_data_acceptance

from schemas.codes import REGISTRY, Code
from schemas.guide import example_document
from schemas.replies import VERSION
from tests.api.api_process import ApiProcess

PUBLIC = "http://127.0.0.1:8080"
PROBLEM = "application/problem+json"
WEBHOOKS = "POST /v1/webhooks/{gateway}"
QUICK = settings(
    max_examples=10,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


@pytest.fixture(scope="session")
def document(process: ApiProcess) -> dict[str, Any]:
    answer = httpx.get(f"{process.url}/openapi.json", trust_env=False)
    assert answer.status_code == 200
    return answer.json()


def _operations(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        f"{method.upper()} {path}": operation
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    }


def is_registered(ctx: CheckContext, response: Response, case: Case) -> None:
    """A refusal is a problem whose type is one of the registry's, or on the approvers' API one without a type."""
    assert response.headers["counterseal-version"] == [VERSION]
    text = response.text or ""
    assert "Traceback" not in text
    assert response.status_code < 500
    if response.status_code < 400 or case.method == "HEAD":
        return
    assert response.headers["content-type"] == [PROBLEM]
    problem = response.json()
    if problem["type"] == "about:blank":
        assert case.operation.path.startswith("/v1/approvals")
        assert problem["status"] == response.status_code
        return
    code = Code(problem["code"])
    assert problem["type"] == f"{PUBLIC}/codes/{code}"
    assert problem["http_status"] == response.status_code
    assert response.status_code in (REGISTRY[code].http_status, *REGISTRY[code].also)
    assert case.operation.path.startswith("/v1/tool-calls") or problem["status"] == REGISTRY[code].status


def hold(process: ApiProcess, operation: APIOperation[Any, Any, Any, Any], mode: GenerationMode) -> None:
    """Send cases of one operation; whatever it answers must be as described."""
    (scheme,) = operation.definition.raw.get("security", [{}])
    token = process.tokens[next(iter(scheme)).removesuffix("_token")] if scheme else None
    headers = {"Authorization": f"Bearer {token}"} if token else {}

    @QUICK
    @given(case=operation.as_strategy(generation_mode=mode))
    def answers(case: Case) -> None:
        if isinstance(case.query.get("wait_seconds"), int):
            case.query["wait_seconds"] = min(case.query["wait_seconds"], 1)
        case.call_and_validate(
            base_url=process.url,
            headers=headers,
            additional_checks=[is_registered],
            # A tool's arguments have schemas of their own, and ids of calls are not to be guessed.
            excluded_checks=[positive_data_acceptance],
        )

    answers()


def test_every_route_answers_as_it_is_described(document: dict[str, Any], process: ApiProcess) -> None:
    """With what fits the description and, where there is anything that could be wrong, with what does not."""
    found = schemathesis.openapi.from_dict(document).get_all_operations()
    operations = [each.ok() for each in found if isinstance(each, Ok)]
    assert {operation.label for operation in operations} == set(_operations(document))
    for operation in operations:
        hold(process, operation, GenerationMode.POSITIVE)
        if operation.body or operation.query:
            hold(process, operation, GenerationMode.NEGATIVE)


def test_every_refusal_of_every_route_is_described_by_its_code(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    for name, operation in _operations(document).items():
        for status, response in operation["responses"].items():
            assert response["headers"]["Counterseal-Version"]["schema"]["const"] == VERSION
            if int(status) < 400:
                continue
            if name == "GET /readyz":
                continue
            assert list(response["content"]) == [PROBLEM], f"{name} {status}"
            schema = response["content"][PROBLEM]["schema"]
            for each in schema.get("oneOf", [schema]):
                described = schemas[each["$ref"].rpartition("/")[2]]
                if "allOf" not in described:
                    continue
                fixed = described["allOf"][1]["properties"]
                assert fixed["type"]["const"] == f"{PUBLIC}/codes/{fixed['code']['const']}"
                assert int(status) in fixed["http_status"]["enum"], f"{name} {status}"


def test_every_agent_route_takes_a_token_and_says_what_bad_ones_get(document: dict[str, Any]) -> None:
    for name, operation in _operations(document).items():
        if " /v1/" not in name or name == WEBHOOKS:
            continue
        assert len(operation["security"]) == 1
        assert {"401", "403", "429", "500", "503"} <= operation["responses"].keys()
        if "requestBody" in operation:
            assert {"400", "413", "415", "422"} <= operation["responses"].keys()
            assert list(operation["requestBody"]["content"]) == ["application/json"]


def test_webhooks_are_described_as_what_they_are(document: dict[str, Any]) -> None:
    operation = _operations(document)[WEBHOOKS]
    assert "security" not in operation
    assert "signature" in operation["description"]
    assert operation["responses"].keys() == {"200", "400", "404", "413", "415", "500", "503"}
    assert "content" not in operation["responses"]["200"]


def test_the_answer_to_a_call_can_have_every_code_that_there_is(document: dict[str, Any]) -> None:
    responses = document["paths"]["/v1/tool-calls"]["post"]["responses"]
    for code, spec in REGISTRY.items():
        described = str(responses[str(spec.http_status)])
        name = "".join(part.title() for part in code.split("_")) if spec.http_status >= 400 else "Reply"
        assert f"/{name}'" in described, code


def test_the_examples_are_those_of_the_pages(document: dict[str, Any]) -> None:
    for code, spec in REGISTRY.items():
        if spec.http_status >= 400:
            name = "".join(part.title() for part in code.split("_"))
            assert document["components"]["schemas"][name]["examples"] == [example_document(code, PUBLIC)]


def test_it_says_its_version_and_nothing_of_the_framework(document: dict[str, Any]) -> None:
    assert document["info"]["version"] == VERSION
    assert document["servers"] == [{"url": PUBLIC}]
    assert "HTTPValidationError" not in str(document)
    hidden = {"tenant", "closed_at"}
    assert not hidden & document["components"]["schemas"]["Approval"]["properties"].keys()
