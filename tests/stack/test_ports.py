import json
import socket
import subprocess
import sys
from pathlib import Path

from runtime.stack.ports import PortClaims, choose, is_free


def listening(port: int = 0) -> socket.socket:
    return socket.create_server(("127.0.0.1", port))


def test_the_preferred_port_is_used_when_it_is_free(tmp_path: Path) -> None:
    with PortClaims() as finder, PortClaims() as claims:
        free = finder.claim_any()
        finder.close()
        assert choose({"api": free}, tmp_path / "ports.json", claims) == {"api": free}


def test_a_taken_port_is_replaced_and_the_replacement_remembered(tmp_path: Path) -> None:
    memory = tmp_path / "ports.json"
    with listening() as other:
        taken = other.getsockname()[1]
        with PortClaims() as claims:
            replacement = choose({"api": taken}, memory, claims)["api"]
    assert replacement != taken
    with PortClaims() as claims:
        assert choose({"api": taken}, memory, claims)["api"] == replacement


def test_the_port_asked_for_beats_the_remembered_one(tmp_path: Path) -> None:
    memory = tmp_path / "ports.json"
    with PortClaims() as claims:
        remembered = choose({"api": claims.claim_any()}, memory, claims)["api"]
    with PortClaims() as claims:
        asked = claims.claim_any()
    with PortClaims() as claims:
        assert choose({"api": remembered}, memory, claims, asked={"api": asked})["api"] == asked


def test_no_two_names_share_a_port(tmp_path: Path) -> None:
    with PortClaims() as claims:
        wanted = claims.claim_any()
    with PortClaims() as claims:
        ports = choose({"api": wanted, "ui": wanted}, tmp_path / "ports.json", claims)
    assert len(set(ports.values())) == 2


def test_a_damaged_memory_is_ignored(tmp_path: Path) -> None:
    memory = tmp_path / "ports.json"
    for damage in ("{", '{"api": "x"}', '{"api": 99999999}', "[]"):
        memory.write_text(damage)
        with PortClaims() as claims:
            chosen = choose({"api": 0}, memory, claims)
        assert json.loads(memory.read_text()) == chosen


def test_a_port_promised_to_another_process_is_not_taken_and_is_free_after_its_death() -> None:
    with PortClaims() as claims:
        port = claims.claim_any()
        program = "import sys; from runtime.stack.ports import PortClaims; print(PortClaims().claim(int(sys.argv[1])))"
        answer = subprocess.check_output([sys.executable, "-c", program, str(port)], text=True)
        assert answer.strip() == "False"
        assert is_free(port)
    with PortClaims() as claims:
        assert claims.claim(port)
