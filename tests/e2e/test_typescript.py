"""The TypeScript client: made from the OpenAPI document, type-checked, and its example against the session's stack."""

import os
import subprocess
from pathlib import Path

import pytest
from counterseal_client import step_key

from tests.docs.written import ROOT
from tests.e2e.running import RunningStack
from tests.gateways.peers.programs import node

CLIENT = ROOT / "client" / "typescript"
TSC, OPENAPI = "node_modules/typescript/bin/tsc", "node_modules/openapi-typescript/bin/cli.js"


def ran(*arguments: str, **variables: str) -> str:
    """What Node prints, started in the client's folder."""
    program = node()
    assert program is not None
    environment = {"PATH": os.environ["PATH"], **variables}
    ended = subprocess.run(
        [program, *arguments], cwd=CLIENT, env=environment, capture_output=True, timeout=120, text=True
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def built() -> Path:
    """The client as JavaScript; making it checks every type."""
    if node() is None or not (CLIENT / TSC).exists():
        pytest.fail("the TypeScript compiler is not installed: make peers")
    ran(TSC)
    return CLIENT / "dist"


def test_the_types_are_those_of_the_document(built: Path) -> None:
    made = ran(OPENAPI, "../../docs/reference/openapi.json", "--default-non-nullable", "false")
    assert made == (CLIENT / "schema.d.ts").read_text(encoding="utf-8"), (
        "client/typescript/schema.d.ts is out of date: run `make docs`"
    )


def test_the_example_refunds_once(built: Path, stack: RunningStack, tmp_path: Path) -> None:
    customer = stack.order()
    example = (built / "example.js").read_text(encoding="utf-8")
    for written, real in (("cus_DemoAda00001", customer.customer_id), ("ord_DemoFree0001", customer.order_id)):
        assert written in example
        example = example.replace(written, real)
    script = built / "example.of.test.mjs"
    script.write_text(example, encoding="utf-8")
    try:
        for _ in range(2):
            said = ran(str(script), API=stack.info["api"], SERVICE=stack.info["service_token"])
            assert said == f"executed none Done: refunded 49.99 USD of order {customer.order_id}.\n"
    finally:
        script.unlink()
    assert [each["amount"] for each in customer.effects()] == [4999]


def test_a_step_has_the_key_that_it_has_in_python(built: Path) -> None:
    script = f"import {{ stepKey }} from '{built / 'index.js'}'; console.log(await stepKey('größe', 'refund: 1'))"
    assert ran("--input-type=module", "--eval", script) == f"{step_key('größe', 'refund: 1')}\n"
