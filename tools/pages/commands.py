"""Reference pages of the command line, from the same Typer application that runs it."""

from __future__ import annotations

from typing import Any

import typer

from stmg.cli import app


def list_commands() -> dict[str, Any]:
    """Every command by its name on the command line."""
    group: Any = typer.main.get_command(app)
    commands = {}
    for name, command in group.commands.items():
        inner = getattr(command, "commands", None)
        commands |= {name: command} if inner is None else {f"{name} {each}": inner[each] for each in inner}
    return commands


def page_name(name: str) -> str:
    """The file of a command's page."""
    return f"{name.replace(' ', '-')}.md"


def index_page() -> str:
    """All commands by panel."""
    panels: dict[str, list[str]] = {}
    group: Any = typer.main.get_command(app)
    for name, command in list_commands().items():
        panel = group.commands[name.split()[0]].rich_help_panel
        first = command.help.split("\n\n")[0]
        panels.setdefault(str(panel), []).append(f"| [`stmg {name}`]({page_name(name)}) | {first} |")
    tables = [f"## {panel}\n\n| | |\n|---|---|\n" + "\n".join(rows) + "\n" for panel, rows in panels.items()]
    codes = (
        "A mistake in what was given is one line and exit code 2, trouble with the machine one line and exit code 1, "
        "Ctrl-C exit code 130 after what is done has been written. `STMG_DEBUG=1` shows the traceback of any error.\n"
    )
    return "\n".join(["# Command line\n", codes, *tables])


def command_page(name: str, command: Any) -> str:
    """One command: what it does, its arguments, its options by panel, and examples."""
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option"]
    words = [_metavar(each) if each.required else f"[{_metavar(each)}]" for each in arguments]
    parts = [f"# stmg {name}\n", _describe(command.help), f"```text\nstmg {name} [OPTIONS] {' '.join(words)}\n```\n"]
    if arguments:
        rows = [f"| `{_metavar(each)}` | {_escape(each.help)} |" for each in arguments]
        parts.append("\n".join(["| argument | |", "|---|---|", *rows, ""]))
    panels: dict[str, list[str]] = {}
    for each in options:
        panels.setdefault(each.rich_help_panel or "Options", []).append(_option_row(each))
    for panel, rows in panels.items():
        parts.append("\n".join([f"## {panel}\n", "| option | default | |", "|---|---|---|", *rows, ""]))
    examples = [line for line in (command.epilog or "").split("\n\n") if line.startswith("stmg ")]
    if examples:
        parts.append("## Examples\n\n```text\n" + "\n".join(examples) + "\n```\n")
    return "\n".join(parts)


def _describe(text: str) -> str:
    """Help as Markdown; paragraphs that Typer is told to leave as they are, by a backspace, become code."""
    parts = text.split("\n\n")
    parts = [f"```yaml{part[1:]}\n```" if part.startswith("\b\n") else part for part in parts]
    return "\n\n".join(parts) + "\n"


def _metavar(parameter: Any) -> str:
    return parameter.metavar or parameter.name.upper()


def _option_row(option: Any) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    value = "" if option.is_flag else f" {_metavar(option)}"
    default = "*required*" if option.required else ""
    if not option.required and option.show_default and option.default not in (None, False):
        default = f"`{option.default}`"
    return f"| {names}{value} | {default} | {_escape(option.help)} |"


def _escape(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|").replace("*", "\\*")
