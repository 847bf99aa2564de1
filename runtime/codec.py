"""Payloads and failures of Temporal, encrypted: histories hold nothing readable but ids and search attributes."""

import os
from collections.abc import Sequence
from dataclasses import replace

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from temporalio.api.common.v1 import Payload
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import DataConverter, DefaultFailureConverterWithEncodedAttributes, PayloadCodec

from ledger.keys import MasterKey

ENCODING = b"binary/encrypted"
_NONCE = 12


class EncryptionCodec(PayloadCodec):
    """AES-256-GCM over the whole payload, metadata included; the key id stands beside it."""

    def __init__(self, key: bytes, key_id: str) -> None:
        self._cipher = AESGCM(key)
        self._key_id = key_id.encode()

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [self._encrypt(payload) for payload in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Plain payloads pass through, and so do those sealed with another key: the converter refuses them where they
        are used. Raised here, one unreadable signal would stop its workflow for ever."""
        return [self._decrypt(payload) for payload in payloads]

    def _encrypt(self, payload: Payload) -> Payload:
        nonce = os.urandom(_NONCE)
        sealed = nonce + self._cipher.encrypt(nonce, payload.SerializeToString(), self._key_id)
        return Payload(metadata={"encoding": ENCODING, "encryption-key-id": self._key_id}, data=sealed)

    def _decrypt(self, payload: Payload) -> Payload:
        if payload.metadata.get("encoding") != ENCODING:
            return payload
        nonce, sealed = payload.data[:_NONCE], payload.data[_NONCE:]
        try:
            plain = self._cipher.decrypt(nonce, sealed, payload.metadata.get("encryption-key-id", b""))
        except (InvalidTag, ValueError):
            return payload
        return Payload.FromString(plain)


def data_converter(master: MasterKey) -> DataConverter:
    """Pydantic conversion, encryption, and encoded failure attributes."""
    return replace(
        pydantic_data_converter,
        payload_codec=EncryptionCodec(master.derive("temporal-payloads"), "payloads-1"),
        failure_converter_class=DefaultFailureConverterWithEncodedAttributes,
    )
