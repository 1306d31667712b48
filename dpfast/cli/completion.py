"""``dpfast completion``: a script that teaches a shell to complete the command line.

The script is made from the parser and holds everything, so that a shell starts no Python to
complete a word.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from dpfast.cli._arguments import Commands, add_json, suggestions
from dpfast.cli._screen import show_json

_SHELLS = ("bash", "zsh", "fish")


def add(commands: Commands) -> None:
    """Add the command's parser."""
    completion = commands.add_parser(
        "completion",
        help="a script with which a shell completes this command line",
        description="Print a script for shell completion.",
        epilog="bash: add  source <(dpfast completion bash)  to ~/.bashrc.  zsh: add the same with "
        "zsh to ~/.zshrc, after compinit.  fish: dpfast completion fish > "
        "~/.config/fish/completions/dpfast.fish",
    )
    completion.add_argument("shell", choices=_SHELLS, help="%(choices)s", metavar="SHELL")
    add_json(completion)
    completion.set_defaults(run=run, commands=commands)


def run(arguments: argparse.Namespace) -> None:
    """Print the script."""
    commands = list(_commands(arguments.commands))
    script = {"bash": _bash, "zsh": _zsh, "fish": _fish}[arguments.shell](commands)
    if arguments.json:
        show_json("completion", {"shell": arguments.shell, "script": script})
    else:
        print(script, end="")


@dataclass(frozen=True)
class _Option:
    """An option, or a positional argument (no names)."""

    names: tuple[str, ...]
    help: str
    takes_value: bool
    words: tuple[str, ...]


@dataclass(frozen=True)
class _Command:
    name: str
    help: str
    options: tuple[_Option, ...]

    @property
    def named(self) -> tuple[_Option, ...]:
        return tuple(option for option in self.options if option.names)

    @property
    def words(self) -> tuple[str, ...]:
        """What its positional arguments may be; nothing means files."""
        return tuple(word for option in self.options if not option.names for word in option.words)


def _commands(commands: Commands) -> Iterator[_Command]:
    helps = {action.dest: action.help or "" for action in commands._choices_actions}
    for name, parser in commands.choices.items():
        yield _Command(
            name,
            helps[name],
            tuple(
                _Option(
                    tuple(action.option_strings),
                    (action.help or "").replace("%%", "%")
                    % {**vars(action), "choices": _listed(action)},
                    action.nargs != 0,
                    suggestions(action),
                )
                for action in parser._actions
            ),
        )


def _listed(action: argparse.Action) -> str:
    return ", ".join(map(str, action.choices or ()))


def _bash(commands: list[_Command]) -> str:
    lines = [
        "# bash completion for dpfast",
        "_dpfast() {",
        '    local current="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"',
        "    COMPREPLY=()",
        '    if [ "$COMP_CWORD" -eq 1 ]; then',
        f'        COMPREPLY=($(compgen -W "{" ".join(c.name for c in commands)} '
        '--help --version" -- "$current"))',
        "        return",
        "    fi",
        '    case "${COMP_WORDS[1]} $before" in',
    ]
    for command in commands:
        for option in command.named:
            if option.takes_value:
                patterns = "|".join(f'"{command.name} {name}"' for name in option.names)
                words = f'compgen -W "{" ".join(option.words)}" -- "$current"'
                reply = f"COMPREPLY=($({words}))" if option.words else "compopt -o default"
                lines.append(f"        {patterns}) {reply}; return;;")
    lines += ["    esac", '    case "${COMP_WORDS[1]}" in']
    for command in commands:
        options = " ".join(name for option in command.named for name in option.names)
        words = " ".join(command.words)
        lines += [
            f"        {command.name})",
            '            if [[ "$current" == -* ]]; then',
            f'                COMPREPLY=($(compgen -W "{options}" -- "$current"))',
            "            else",
            f'                COMPREPLY=($(compgen -W "{words}" -- "$current"))'
            if words
            else "                compopt -o default",
            "            fi;;",
        ]
    return "\n".join([*lines, "    esac", "}", "complete -F _dpfast dpfast", ""])


def _zsh(commands: list[_Command]) -> str:
    lines = ["#compdef dpfast", "# zsh completion for dpfast", "_dpfast() {"]
    lines += ["    if (( CURRENT == 2 )); then", "        local -a commands=("]
    lines += [f"            {shlex.quote(f'{c.name}:{c.help}')}" for c in commands]
    lines += ["        )", "        _describe command commands", "        return", "    fi"]
    lines += ["    local command=$words[2]", "    shift words", "    (( CURRENT-- ))"]
    lines += ["    case $command in"]
    for command in commands:
        lines.append(f"        {command.name}) _arguments \\")
        for option in command.named:
            action = f":value:{_zsh_action(option.words)}" if option.takes_value else ""
            for name in option.names:
                text = f"{name}[{_zsh_text(option.help)}]{action}"
                lines.append(f"            {shlex.quote(text)} \\")
        lines.append(f"            {shlex.quote(f'*:argument:{_zsh_action(command.words)}')};;")
    lines += ["    esac", "}", "compdef _dpfast dpfast", ""]
    return "\n".join(lines)


def _zsh_action(words: tuple[str, ...]) -> str:
    return f"({' '.join(words)})" if words else "_files"


def _zsh_text(text: str) -> str:
    return text.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")


def _fish(commands: list[_Command]) -> str:
    lines = ["# fish completion for dpfast"]
    for command in commands:
        lines.append(
            f"complete -c dpfast -f -n __fish_use_subcommand -a {command.name} "
            f"-d {_fish_quote(command.help)}"
        )
        condition = f"-n '__fish_seen_subcommand_from {command.name}'"
        for option in command.named:
            names = " ".join(
                f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
                for name in option.names
            )
            value = ""
            if option.takes_value:
                value = f" -x -a {_fish_quote(' '.join(option.words))}" if option.words else " -r"
            lines.append(
                f"complete -c dpfast {condition} {names}{value} -d {_fish_quote(option.help)}"
            )
        if command.words:
            words = _fish_quote(" ".join(command.words))
            lines.append(f"complete -c dpfast {condition} -f -a {words}")
    return "\n".join([*lines, ""])


def _fish_quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
