"""Payloads under several keys: each names its own."""

import os

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from temporalio.api.common.v1 import Payload

from ledger.keys import MasterKey, RootKey
from runtime.codec import ENCODING, EncryptionCodec, data_converter

OLD, NEW = bytes(range(32)), b"n" * 32
PLAIN = Payload(metadata={"encoding": b"json/plain"}, data=b'"Ada Example"')


def codec(*secrets: bytes) -> EncryptionCodec:
    made = data_converter(MasterKey(*secrets)).payload_codec
    assert isinstance(made, EncryptionCodec)
    return made


@pytest.mark.parametrize("ring", [(OLD, NEW), (NEW, OLD)], ids=["prepared", "in use"])
async def test_what_a_key_sealed_opens_wherever_it_stands(ring: tuple[bytes, ...]) -> None:
    sealed = await codec(OLD).encode([PLAIN])
    assert b"Ada" not in sealed[0].data
    assert await codec(*ring).decode(sealed) == [PLAIN]
    assert await codec(NEW).decode(sealed) == sealed
    assert await codec(ring[0]).decode(await codec(*ring).encode([PLAIN])) == [PLAIN]


async def test_what_is_from_before_keys_had_ids_opens_with_whichever_fits() -> None:
    name, nonce = b"payloads-1", os.urandom(12)
    cipher = AESGCM(RootKey(OLD).derive("temporal-payloads"))
    data = nonce + cipher.encrypt(nonce, PLAIN.SerializeToString(), name)
    before = Payload(metadata={"encoding": ENCODING, "encryption-key-id": name}, data=data)
    assert await codec(NEW, OLD).decode([before]) == [PLAIN]
    assert await codec(NEW).decode([before]) == [before]


async def test_a_payload_that_names_another_key_is_left_alone() -> None:
    (sealed,) = await codec(OLD).encode([PLAIN])
    sealed.metadata["encryption-key-id"] = b"payloads-0000000000000000"
    assert await codec(NEW, OLD).decode([sealed]) == [sealed]
