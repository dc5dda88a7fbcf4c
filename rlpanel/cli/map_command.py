"""The command ``map``: which key of unknown files is which field, asked in the terminal."""

from __future__ import annotations

import difflib
import shlex
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from rlpanel.cli.shared_options import Map
from rlpanel.cli.terminal_messages import printable
from rlpanel.errors import RunNotFound, SettingError
from rlpanel.number_text import number

if TYPE_CHECKING:
    from rlpanel.sources.files.file_access import AnyPath
    from rlpanel.sources.mapping.first_records import FoundFile, Proposal
    from rlpanel.sources.records.record_types import Record

#: Most keys that are listed, and most characters of a value and of a text in the preview.
_MAX_LISTED, _VALUE, _TEXT = 40, 60, 160
_NONE = "-"

Keys = dict[str, str | int]


def map(
    folder: Annotated[str, typer.Argument(help="A folder, local or remote.", metavar="DIR")],
    keys: Map = None,
    file: Annotated[
        str,
        typer.Option(help="File whose records are shown, below the folder.", show_default="the likeliest"),
    ] = "",
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Take what is proposed without questions.")
    ] = False,
    save: Annotated[bool, typer.Option("--save", help="Write rlpanel.toml into the folder.")] = False,
) -> None:
    """Ask which key of an unknown log is which field, show three samples, and print the command to go on.

    The answers are proposed from names and values; fields given by --map are not asked for.
    """
    from rlpanel.sources.adapters.key_mapping import parse_mapping
    from rlpanel.sources.files.file_access import path_of
    from rlpanel.sources.mapping import mapping_text
    from rlpanel.sources.mapping.first_records import known_format, preview

    if not yes and not sys.stdin.isatty():
        raise SettingError(
            "map asks questions, and the input is not a terminal: add --yes to take what is proposed"
        )
    given = parse_mapping(keys or "")
    answered: Keys = {} if given is None else dict(given.keys)
    if given is not None and given.step is not None:
        answered["step"] = given.step
    root = path_of(folder).resolve()
    proposal, others = _propose(root, file)
    if keys is None and (known := known_format(proposal.first.file)):
        _say(f"{proposal.first.file.name} needs no mapping: it is read as {known}")
        _say(f"rlpanel index {shlex.quote(folder)}")
        return
    _say_found(proposal, others)
    chosen = {**{name: key for name, key in proposal.keys.items() if name not in answered}, **answered}
    chosen = chosen if yes else _ask(proposal, chosen, set(answered))
    chosen = {name: chosen[name] for name in proposal.names(chosen) if name in chosen}
    for name, key in chosen.items():
        _say(f"  {name:<14} ← {key}{_confidence(proposal, name, key)}")
    shown = preview(proposal.first, chosen)
    for at, record in enumerate(shown.samples):
        _say_sample(at, record)
    if not shown.samples:
        raise SettingError(f"{proposal.first.file.name} cannot be read so: {shown.problem}")
    written = mapping_text.explicit(chosen)
    option = mapping_text.option_text(written)
    _say("")
    if option:
        _say(f"rlpanel index {shlex.quote(folder)} --map {shlex.quote(option)}")
    if save:
        _say(f"written: {mapping_text.save(root, written)}; next: rlpanel serve {shlex.quote(folder)}")
    elif option:
        keep = f"rlpanel map {shlex.quote(folder)} --map {shlex.quote(option)} --yes --save"
        _say(f"{keep}  # keeps it in rlpanel.toml")
    else:
        _say("a key cannot be written as an option: add --save to keep the mapping in rlpanel.toml")


def _propose(root: AnyPath, name: str) -> tuple[Proposal, int]:
    """Return the proposal for a folder's file, and the number of its other files."""
    from rlpanel.sources.files.file_access import listing_error
    from rlpanel.sources.mapping.first_records import find_files, propose, propose_for_folder, read_first

    if problem := listing_error(root):
        raise RunNotFound(f"{root}: {problem}")
    if name:
        files = find_files(root)
        proposal = propose(read_first(_file_named(files, name)))
    else:
        files, found = propose_for_folder(root)
        if found is None:
            raise RunNotFound(f"no file with records below {root}")
        proposal = found
    if proposal.first.problem:
        raise SettingError(f"{proposal.first.file.name}: {proposal.first.problem}")
    return proposal, len(files) - 1


def _file_named(files: list[FoundFile], name: str) -> FoundFile:
    found = next((each for each in files if each.name == name), None)
    if found is None:
        close = difflib.get_close_matches(name, [each.name for each in files], n=1)
        raise SettingError(
            f"no file {name!r} below the folder{f'; did you mean {close[0]}?' if close else ''}"
        )
    return found


def _say_found(proposal: Proposal, others: int) -> None:
    more = f", and {others:,} other file{'s' * (others > 1)}" if others else ""
    _say(f"{proposal.first.file.name}{more}")
    _say(proposal.inference.sentence())
    lines = [line for line in proposal.tree if line.key]
    width = min(max((len(line.key) for line in lines), default=0), 32)
    for line in lines[:_MAX_LISTED]:
        size = f" of {line.count:,}" if line.kind == "list" else ""
        _say(f"  {line.key:<{width}}  {line.kind + size:<13}  {line.value[:_VALUE]}")
    if len(lines) > _MAX_LISTED:
        _say(f"  and {len(lines) - _MAX_LISTED:,} more")
    _say("")


def _ask(proposal: Proposal, proposed: Keys, answered: set[str]) -> Keys:
    """Ask for the key of each field; the proposal is the answer of an empty line."""
    known = {line.key for line in proposal.tree if line.key}
    known |= {key for guess in proposal.inference.guesses for key, _ in ((guess.key, 0), *guess.others)}
    _say(f"Enter takes the proposal; otherwise type a key, or {_NONE} for none. The step may be a number.")
    keys: Keys = {}
    for name in proposal.names(proposed):
        if name in answered:
            keys[name] = proposed[name]
            continue
        key = _ask_one(proposal, name, proposed.get(name, _NONE), known)
        if key != _NONE:
            keys[name] = key
    _say("")
    return keys


def _ask_one(proposal: Proposal, name: str, proposed: str | int, known: set[str]) -> str | int:
    for line in _about(proposal, name, proposed):
        _say(f"    {line}")
    while True:
        answer = typer.prompt(printable(f"{name} [{proposed}]"), default="", show_default=False).strip()
        if not answer:
            return proposed
        if name == "step" and answer.lstrip("-").isdecimal() and answer not in known:
            return int(answer)
        if answer == _NONE or answer in known:
            return answer
        close = difflib.get_close_matches(answer, sorted(known), n=2)
        _say(f"    no record has {answer!r}{'; did you mean ' + ' or '.join(close) + '?' if close else ''}")


def _about(proposal: Proposal, name: str, key: str | int) -> Iterator[str]:
    """Yield what a proposal is based on, with the first record's value."""
    from rlpanel.sources.adapters.key_mapping import value_at
    from rlpanel.sources.mapping.mapping_text import value_text

    guess = proposal.guess(name)
    if guess is not None and guess.key == key:
        others = "".join(f", or {other} ({share:.0%})" for other, share in guess.others)
        yield f"{guess.confidence:.0%}: {guess.reason}{others}"
    if isinstance(key, str) and key != _NONE:
        yield value_text(value_at(proposal.first.records[0], key), _VALUE)
    elif isinstance(key, int):
        yield "no key holds a step: all samples get this one"


def _confidence(proposal: Proposal, name: str, key: str | int) -> str:
    guess = proposal.guess(name)
    return f"  ({guess.confidence:.0%}: {guess.reason})" if guess is not None and guess.key == key else ""


def _say_sample(at: int, record: Record) -> None:
    """Print a sample of the preview in a few lines."""
    reward = record.numbers.get("reward")
    facts = [f"step {record.step}", *([f"reward {number(reward)}"] if reward is not None else [])]
    facts += [f"{len(record.messages):,} messages"] if record.messages else []
    _say("")
    _say(f"sample {at + 1}: {', '.join(facts)}")
    for name in ("prompt", "response", "ground_truth"):
        text = record.texts.get(name)
        if text:
            cut = f"{text[:_TEXT]}{'…' * (len(text) > _TEXT)}"
            _say(f"  {name:<13} {' '.join(cut.split())}")
    for note in record.notes[:3]:
        _say(f"  remark: {note}")


def _say(line: str) -> None:
    """Print a line; what a log wrote cannot control the terminal."""
    typer.echo(printable(line))


COMMANDS = {map: "rlpanel map results --yes"}
