"""Where the master key comes from, against a key management service that nobody here wrote."""

import base64
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from pydantic import SecretStr

from ledger.keys import KeyMaterialError
from runtime.cli.main import run
from runtime.master import key_management, master_key, sealed_by

KEY = bytes(range(32))
TEXT = base64.b64encode(KEY).decode()


@pytest.fixture(scope="module")
def kms() -> Iterator[str]:
    """A key of a simulated AWS KMS, by its name here."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with pytest.MonkeyPatch.context() as environment:
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "nobody",
            "AWS_SECRET_ACCESS_KEY": "nothing",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": "/dev/null",
        }.items():
            environment.setenv(name, value)
        try:
            give_up = time.monotonic() + 30
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                except OSError:
                    assert process.poll() is None
                    assert time.monotonic() < give_up
                    time.sleep(0.05)
            client = boto3.client("kms")
            yield "aws:" + client.create_key()["KeyMetadata"]["KeyId"]
        finally:
            process.terminate()
            process.wait(10)


def test_a_sealed_key_is_opened_by_the_service_alone(kms: str, tmp_path: Path) -> None:
    file = tmp_path / "master.key"
    file.write_text(sealed_by(kms, TEXT))
    assert TEXT not in file.read_text()
    assert KEY not in base64.b64decode(file.read_text())
    opened = master_key(file, None, kms)
    assert opened.current.derive("a test") == master_key(None, SecretStr(TEXT), "").current.derive("a test")
    with pytest.raises(KeyMaterialError):
        master_key(file, None, "")


def test_what_was_altered_or_sealed_for_another_purpose_is_not_opened(kms: str, tmp_path: Path) -> None:
    sealed = base64.b64decode(sealed_by(kms, TEXT))
    file = tmp_path / "master.key"
    file.write_text(base64.b64encode(sealed[:-1] + bytes([sealed[-1] ^ 1])).decode())
    with pytest.raises(KeyMaterialError) as refused:
        master_key(file, None, kms)
    assert "arn:" not in str(refused.value)
    other = boto3.client("kms").encrypt(KeyId=kms.removeprefix("aws:"), Plaintext=KEY)["CiphertextBlob"]
    file.write_text(base64.b64encode(other).decode())
    with pytest.raises(KeyMaterialError):
        master_key(file, None, kms)


@pytest.mark.parametrize("name", ["", "aws:", "gcp:key", "alias/key"])
def test_a_service_is_named_in_full(name: str) -> None:
    with pytest.raises(KeyMaterialError):
        key_management(name)


@pytest.mark.parametrize("value", ["", "no base64!", base64.b64encode(b"short").decode()])
def test_a_key_in_the_environment_is_whole(value: str) -> None:
    with pytest.raises(KeyMaterialError) as refused:
        master_key(None, SecretStr(value), "")
    assert value == "" or value not in str(refused.value)


def test_without_any_the_settings_are_named() -> None:
    with pytest.raises(KeyMaterialError, match="COUNTERSEAL_MASTER_KEY_FILE"):
        master_key(None, None, "")


def test_the_command_seals_and_never_shows_the_key(
    kms: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stdin = tmp_path / "in"
    stdin.write_text(TEXT + "\n")
    with stdin.open() as given:
        monkeypatch.setattr(sys, "stdin", given)
        assert run(["vault", "seal-key", kms]) == 0
    out = capsys.readouterr().out
    assert TEXT not in out
    file = tmp_path / "master.key"
    file.write_text(out)
    assert master_key(file, None, kms).current.derive("a test")
