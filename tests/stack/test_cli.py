"""The `counterseal` program around its commands."""

import importlib
import subprocess
import sys
import types

import pytest
import typer

from runtime.cli import main as program
from runtime.cli.errors import CommandError


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    """A command `probe` in a module of its own."""
    module = types.ModuleType("probe_command")
    module.app = typer.Typer()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "probe_command", module)
    monkeypatch.setitem(program.COMMANDS, "probe", ("probe_command", "Probe."))
    return module.app  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "arguments", [["nope"], ["--nope"], ["probe", "--nope"], ["probe", "--number", "x"], ["probe", "extra"]]
)
def test_wrong_usage_is_one_line_and_status_2(
    probe: typer.Typer, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    @probe.command()
    def command(number: int = 0) -> None: ...

    assert program.run(arguments) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_failure_is_one_line_and_status_1(probe: typer.Typer, capsys: pytest.CaptureFixture[str]) -> None:
    @probe.command()
    def command() -> None:
        raise CommandError("the ledger\ndoes not verify")

    assert program.run(["probe"]) == 1
    assert capsys.readouterr().err == "counterseal: the ledger does not verify\n"


def test_an_unexpected_exception_shows_neither_its_text_nor_a_traceback(
    probe: typer.Typer, capsys: pytest.CaptureFixture[str]
) -> None:
    @probe.command()
    def command() -> None:
        raise RuntimeError("https://user:password@example.com")

    assert program.run(["probe"]) == 1
    error = capsys.readouterr().err
    assert "password" not in error
    assert "Traceback" not in error
    assert "RuntimeError" in error


def test_a_group_of_commands_runs_the_one_named(probe: typer.Typer) -> None:
    ran: list[str] = []

    @probe.command()
    def add() -> None:
        ran.append("add")

    @probe.command()
    def remove() -> None:
        raise typer.Exit(1)

    assert program.run(["probe", "add"]) == 0
    assert ran == ["add"]
    assert program.run(["probe", "remove"]) == 1


def test_help_lists_every_command_and_imports_none() -> None:
    source = (
        "import sys; from runtime.cli import main; status = main.run(['--help']); "
        "sys.exit(status or any(module in sys.modules for module, _ in main.COMMANDS.values()))"
    )
    listed = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True).stdout
    assert all(f" {name} " in listed for name in program.COMMANDS)


def test_a_worker_starts_without_what_serves_the_api() -> None:
    code = (
        "import sys; import runtime.cli.worker, runtime.worker_process; "
        "print({'fastapi', 'mcp', 'webauthn'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("name", program.COMMANDS)
def test_every_command_has_a_help_line_and_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    app = importlib.import_module(program.COMMANDS[name][0]).app
    subcommands = [command.name or command.callback.__name__ for command in app.registered_commands]
    paths = [[name]] if len(subcommands) == 1 else [[name, subcommand] for subcommand in subcommands]
    for path in paths:
        assert program.run([*path, "--help"]) == 0
        text = capsys.readouterr().out
        assert "Example" in text
        assert f"counterseal {name}" in text
