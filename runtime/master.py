"""Where the master key comes from: a file, the environment, or a file that a key management service opens."""

import base64
from pathlib import Path
from typing import Protocol

from pydantic import SecretStr

from ledger.keys import KeyMaterialError, MasterKey

# What the service binds the sealed key to; it refuses to open it for any other purpose.
_CONTEXT = {"purpose": "counterseal master key"}


class KeyManagement(Protocol):
    """Seals and opens a key that it never gives away the key of. Both raise KeyMaterialError."""

    def seal(self, key: bytes) -> bytes: ...

    def open(self, sealed: bytes) -> bytes: ...


class AwsKms:
    """AWS KMS: https://docs.aws.amazon.com/kms/latest/APIReference/API_Decrypt.html

    Region, credentials and endpoint are those of the standard AWS_… variables and files.
    """

    def __init__(self, key_id: str) -> None:
        """`key_id` is the key's id, ARN or alias. Raises KeyMaterialError when the client is not installed."""
        try:
            # An extra of its own: most installations have no use for it.
            import boto3
            from botocore.exceptions import BotoCoreError, ClientError
        except ImportError:
            raise KeyMaterialError("AWS KMS needs the extra `kms` of this package (boto3)") from None
        self._key_id = key_id
        self._errors = (BotoCoreError, ClientError)
        try:
            self._client = boto3.client("kms")  # pyright: ignore[reportUnknownMemberType]  # its overloads are
        except self._errors as problem:
            raise _unavailable(problem) from None

    def seal(self, key: bytes) -> bytes:
        try:
            answer = self._client.encrypt(KeyId=self._key_id, Plaintext=key, EncryptionContext=_CONTEXT)
        except self._errors as problem:
            raise _unavailable(problem) from None
        return answer["CiphertextBlob"]

    def open(self, sealed: bytes) -> bytes:
        try:
            answer = self._client.decrypt(KeyId=self._key_id, CiphertextBlob=sealed, EncryptionContext=_CONTEXT)
        except self._errors as problem:
            raise _unavailable(problem) from None
        return answer["Plaintext"]


def _unavailable(problem: Exception) -> KeyMaterialError:
    """AWS's own texts name accounts and keys."""
    return KeyMaterialError(f"AWS KMS did not do it ({type(problem).__name__})")


def key_management(name: str) -> KeyManagement:
    """The service that `aws:KEY` names. Raises KeyMaterialError."""
    kind, _, key_id = name.partition(":")
    if kind != "aws" or not key_id:
        raise KeyMaterialError("a key management service is named as aws:KEY, with a key's id, ARN or alias")
    return AwsKms(key_id)


def master_key(file: Path | None, value: SecretStr | None, kms: str) -> MasterKey:
    """The master key. Raises KeyMaterialError.

    `value` is the key itself, 32 bytes in base64. `file` holds it, or, where `kms` names a key management service, what
    that sealed it to.
    """
    if value is not None:
        return _decoded(value.get_secret_value(), "COUNTERSEAL_MASTER_KEY")
    if file is None:
        raise KeyMaterialError("COUNTERSEAL_MASTER_KEY_FILE or COUNTERSEAL_MASTER_KEY is needed: the master key")
    if not kms:
        return MasterKey.from_file(file)
    try:
        sealed = base64.b64decode(file.read_text().strip(), validate=True)
    except (OSError, ValueError):
        raise KeyMaterialError(f"the master key file {file} cannot be read as base64") from None
    return MasterKey(key_management(kms).open(sealed))


def sealed_by(kms: str, key: str) -> str:
    """A master key (32 bytes in base64) as a file for `kms` holds it, in base64. Raises KeyMaterialError."""
    _decoded(key, "the key")
    return base64.b64encode(key_management(kms).seal(base64.b64decode(key))).decode()


def _decoded(text: str, name: str) -> MasterKey:
    try:
        return MasterKey(base64.b64decode(text.strip(), validate=True))
    except ValueError:
        raise KeyMaterialError(f"{name} cannot be read as 32 bytes in base64") from None
