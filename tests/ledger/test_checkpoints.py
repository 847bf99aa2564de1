"""Checkpoints as signed notes."""

from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ledger.checkpoints import NO_SEAL, BadCheckpoint, Checkpoint, SealKey, VerifierKey, signers, split

KEY = SealKey("counterseal.ledger/example", Ed25519PrivateKey.from_private_bytes(bytes(32)))
OTHER = SealKey(KEY.name, Ed25519PrivateKey.from_private_bytes(bytes([1]) * 32))
AT = datetime(2026, 11, 30, 12, 0, 0, 5, tzinfo=UTC)
CHECKPOINT = Checkpoint(KEY.name, 20852163, bytes([7]) * 32, 12, NO_SEAL, AT)
NOTE = KEY.sign(CHECKPOINT.text)

# https://pkg.go.dev/golang.org/x/mod/sumdb/note
NEUMANN = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
SAYING = (
    "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n\n"
    "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
)


def test_a_note_that_others_signed_is_verified() -> None:
    key = VerifierKey.parse(NEUMANN)
    assert str(key) == NEUMANN
    assert signers(SAYING, [key]) == [key]
    with pytest.raises(BadCheckpoint, match="does not hold"):
        signers(SAYING.replace("answer", "reason"), [key])


@pytest.mark.parametrize("next_key", [None, OTHER.public])
def test_what_was_said_is_read_again(next_key: VerifierKey | None) -> None:
    said = Checkpoint(KEY.name, 0, bytes(32), 1, NO_SEAL, AT, next_key)
    note = KEY.sign(said.text)
    assert Checkpoint.parse(note) == said
    assert signers(note, [OTHER.public, KEY.public]) == [KEY.public]
    assert signers(note, [OTHER.public]) == []


def test_no_character_can_be_another_one() -> None:
    for position, character in enumerate(NOTE):
        for other in "AB1":
            altered = NOTE[:position] + other + NOTE[position + 1 :]
            if other == character:
                continue
            try:
                found = Checkpoint.parse(altered) if signers(altered, [KEY.public]) else None
            except BadCheckpoint:
                found = None
            assert found is None, f"{character} at {position} can be {other}"


@pytest.mark.parametrize(
    "note",
    [
        "",
        "\n\n",
        CHECKPOINT.text,
        NOTE.replace("20852163", "020852163"),
        NOTE.replace("20852163", "-1"),
        NOTE.replace("seal 12", "seal 0"),
        NOTE.replace("2026-11-30", "2026-13-30"),
        NOTE.replace("time", "more\ntime"),
        NOTE + "\n",
        NOTE.replace("\n\n", "\n \n"),
    ],
)
def test_anything_else_is_no_checkpoint(note: str) -> None:
    with pytest.raises(BadCheckpoint):
        Checkpoint.parse(note)


@pytest.mark.parametrize("line", ["", "— x", "— x y", "— x AAAA", "- x AAAAAAAAAAA=", "— a b c"])
def test_a_line_that_is_no_signature_is_refused(line: str) -> None:
    with pytest.raises(BadCheckpoint):
        signers(f"{CHECKPOINT.text}\n{line}\n", [KEY.public])


@pytest.mark.parametrize("text", ["", "a", "a+b", "a+b+c", str(KEY.public)[:-4], str(KEY.public).replace("+", "+0", 1)])
def test_anything_else_is_no_verifier_key(text: str) -> None:
    with pytest.raises(BadCheckpoint):
        VerifierKey.parse(text)


def test_the_text_ends_where_the_signatures_begin() -> None:
    assert split(NOTE)[0] == CHECKPOINT.text
