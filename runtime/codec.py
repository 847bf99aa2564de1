"""Payloads and failures of Temporal, encrypted: histories hold nothing readable but ids and search attributes."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from temporalio.api.common.v1 import Payload
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import DataConverter, DefaultFailureConverterWithEncodedAttributes, PayloadCodec

from ledger.keys import MasterKey, RootKey

ENCODING = b"binary/encrypted"
_NONCE = 12
_PURPOSE = "temporal-payloads"
_BEFORE_IDS = b"payloads-1"


class EncryptionCodec(PayloadCodec):
    """AES-256-GCM over the whole payload, metadata included; the key id stands beside it."""

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        """`keys` by id: the first one encrypts, each decrypts what names it, and all what is from before there were
        several."""
        self._ciphers = {key_id.encode(): AESGCM(key) for key_id, key in keys.items()}
        self._key_id, self._cipher = next(iter(self._ciphers.items()))

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
        key_id = payload.metadata.get("encryption-key-id", b"")
        fitting = self._ciphers.values() if key_id == _BEFORE_IDS else filter(None, [self._ciphers.get(key_id)])
        for cipher in fitting:
            try:
                return Payload.FromString(cipher.decrypt(nonce, sealed, key_id))
            except (InvalidTag, ValueError):
                continue
        return payload


def payload_key_id(root: RootKey) -> str:
    """What the key is called that a master key encrypts payloads with."""
    return root.key_id.replace("mk_", "payloads-", 1)


def payload_codec(master: MasterKey) -> EncryptionCodec:
    """What encrypts with the first of the master keys, and decrypts with each."""
    return EncryptionCodec({payload_key_id(each): each.derive(_PURPOSE) for each in master.keys})


def data_converter(master: MasterKey) -> DataConverter:
    """Pydantic conversion, encryption, and encoded failure attributes."""
    return replace(
        pydantic_data_converter,
        payload_codec=payload_codec(master),
        failure_converter_class=DefaultFailureConverterWithEncodedAttributes,
    )
