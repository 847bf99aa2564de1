"""The namespace is as the service needs it."""

from datetime import timedelta

import pytest
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client

from runtime.stack import temporal as module
from runtime.stack.errors import StackError
from runtime.stack.temporal import Temporal


async def test_closed_workflows_are_kept_for_ninety_days(temporal_server: str) -> None:
    client = await Client.connect(temporal_server, namespace="default")
    namespace = await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace="default"))
    assert namespace.config.workflow_execution_retention_ttl.ToTimedelta() == timedelta(days=90)


async def test_a_missing_search_attribute_is_an_error(
    temporal_server: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Temporal(tmp_path_factory.mktemp("unused"), port=int(temporal_server.split(":")[1]), ui_port=None)
    await server.configure()
    monkeypatch.setattr(module, "SEARCH_ATTRIBUTES", ("CallStatus", "Unheard"))
    with pytest.raises(StackError, match="Unheard"):
        await server.configure()


async def test_no_server_is_not_ready(tmp_path_factory: pytest.TempPathFactory) -> None:
    assert not await Temporal(tmp_path_factory.mktemp("unused"), port=1, ui_port=None).ready()
