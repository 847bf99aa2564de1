"""Where the master key comes from: a file, the environment, or a file that a key management service opens."""

import base64
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from pydantic import SecretStr

from ledger.keys import KeyMaterialError, MasterKey, decoded_lines
from runtime.stack.files import write_private

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

    `value` is the key itself, 32 bytes in base64; or several, the current one first, then those that open what they
    sealed. `file` holds the same, one a line, or, where `kms` names a key management service, what that sealed each to.
    """
    if value is not None:
        return _decoded(value.get_secret_value(), "COUNTERSEAL_MASTER_KEY")
    if file is None:
        raise KeyMaterialError("COUNTERSEAL_MASTER_KEY_FILE or COUNTERSEAL_MASTER_KEY is needed: the master key")
    if not kms:
        return MasterKey.from_file(file)
    try:
        sealed = decoded_lines(file.read_text())
    except (OSError, ValueError):
        raise KeyMaterialError(f"the master key file {file} cannot be read as base64") from None
    service = key_management(kms)
    return MasterKey.of(service.open(each) for each in sealed)


def add_key(file: Path, kms: str, key: str, *, first: bool) -> str:
    """Put a new master key (32 bytes in base64) into the file, before the others or behind them: its id.

    Raises KeyMaterialError, and changes nothing then.
    """
    made = _decoded(key, "the key").current.key_id
    lines = _lines(file, kms)
    line = sealed_by(kms, key) if kms else key.strip()
    _write(file, [line, *lines.values()] if first else [*lines.values(), line])
    return made


def use_key(file: Path, kms: str, key_id: str) -> None:
    """Put a key of the file before the others. Raises KeyMaterialError, and changes nothing then."""
    lines = _lines(file, kms)
    if key_id not in lines:
        raise KeyMaterialError(f"there is no key {key_id} in {file}")
    _write(file, [lines.pop(key_id), *lines.values()])


def _lines(file: Path, kms: str) -> dict[str, str]:
    """The lines of the file by the id of the key in each."""
    keys = master_key(file, None, kms).keys
    return dict(zip((key.key_id for key in keys), file.read_text().split(), strict=True))


def _write(file: Path, lines: Sequence[str]) -> None:
    """In one step, so that no process reads half of it."""
    if file.is_symlink():
        raise KeyMaterialError(f"the master key file {file} is a link: change it where it points to")
    anew = file.with_name(f".{file.name}.new")
    try:
        before = file.stat()
        write_private(anew, "".join(f"{line}\n" for line in lines))
        # Whoever changes it may be another user than the service's, which has to read it as before.
        anew.chmod(before.st_mode & 0o777)
        if (before.st_uid, before.st_gid) != (anew.stat().st_uid, anew.stat().st_gid):
            os.chown(anew, before.st_uid, before.st_gid)
        anew.replace(file)
    except OSError as problem:
        raise KeyMaterialError(f"the master key file {file} cannot be written: {problem.strerror}") from None


def sealed_by(kms: str, key: str) -> str:
    """A master key (32 bytes in base64) as a file for `kms` holds it, in base64. Raises KeyMaterialError."""
    if len(_decoded(key, "the key").keys) != 1:
        raise KeyMaterialError("one key at a time is sealed")
    return base64.b64encode(key_management(kms).seal(base64.b64decode(key.strip()))).decode()


def _decoded(text: str, name: str) -> MasterKey:
    try:
        return MasterKey.of(decoded_lines(text))
    except ValueError:
        raise KeyMaterialError(f"{name} cannot be read as 32 bytes in base64") from None
