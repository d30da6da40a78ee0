"""`dipsmith serve --stdio`: the commands for other languages and tools, as lines of JSON.

One request is one line, one answer is one line, in order; the same process serves all of them, so that libraries are
loaded once. A request names a command and its options as the command line does: what is charged, refused and written
is decided by the very same code. The JSON Schema of requests and answers is made from the commands themselves.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Final, get_args, get_type_hints

import typer
from typer import Option

from dipsmith.cli import fit, plan, supports, synthesize, verify
from dipsmith.cli.failures import Failure, failure_of
from dipsmith.cli.options import examples
from dipsmith.errors import UsageError

EXAMPLES = examples("dipsmith serve --stdio", "dipsmith serve --schema > protocol.schema.json")
LONGEST: Final = 1 << 20
"""Bytes of a request."""
COMMANDS: Final[dict[str, Any]] = {
    "plan": plan.plan,
    "synthesize": synthesize.synthesize,
    "verify": verify.verify,
    "supports": supports.supports,
    "fit": fit.fit,
}
_TYPES: Final = {bool: "boolean", int: "integer", float: "number"}


def serve(
    stdio: Annotated[bool, Option("--stdio", help="Read requests from standard input, one line each.")] = False,
    schema: Annotated[
        bool, Option("--schema", help="Print the JSON Schema of requests and answers, and stop.")
    ] = False,
) -> None:
    """Answer requests of other programs: lines of JSON in, lines of JSON out, until standard input ends."""
    if stdio == schema:
        raise UsageError("give --stdio to serve requests, or --schema to see what they look like")
    if schema:
        typer.echo(json.dumps(protocol(), indent=1, ensure_ascii=False))
        return
    out = sys.stdout
    while line := sys.stdin.buffer.readline(LONGEST + 1):
        if not line.strip():
            continue
        out.write(json.dumps(answer_to(line), ensure_ascii=True, default=str) + "\n")
        out.flush()


def answer_to(line: bytes) -> dict[str, Any]:
    """The answer to one request; whatever goes wrong with it is part of the answer."""
    name: Any = None
    try:
        request = _read(line)
        name = request.get("id")
        return {"id": name, "ok": True, "result": _run(request)}
    except Failure as failure:
        return _refusal(name, failure)
    except Exception as error:  # noqa: BLE001 — as on the command line, nobody sees what a library says
        return _refusal(name, failure_of(error))


def protocol() -> dict[str, Any]:
    """The JSON Schema of requests and answers."""
    requests = [
        {
            "title": name,
            "description": (command.help or "").split("\n")[0],
            "type": "object",
            "properties": {
                "id": {"$ref": "#/$defs/id"},
                "command": {"const": name},
                "arguments": {
                    "type": "object",
                    "properties": {
                        p.name: _describe(p, get_type_hints(COMMANDS[name])) for p in _parameters_of(command)
                    },
                    "required": [p.name for p in _parameters_of(command) if p.required],
                    "additionalProperties": False,
                },
            },
            "required": ["command", "arguments"],
            "additionalProperties": False,
        }
        for name, command in _commands().items()
    ]
    answered = {"id": {"$ref": "#/$defs/id"}, "ok": {"const": True}, "result": {"type": ["object", "array"]}}
    error = {"message": {"type": "string"}, "exit_code": {"type": "integer", "minimum": 1, "maximum": 255}}
    refused = {
        "id": {"$ref": "#/$defs/id"},
        "ok": {"const": False},
        "error": {"type": "object", "properties": error, "required": list(error), "additionalProperties": False},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "dipsmith serve --stdio",
        "$defs": {
            "id": {"type": ["string", "integer", "null"], "description": "Returned with the answer."},
            "request": {"oneOf": requests},
            "answer": {
                "oneOf": [
                    {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}
                    for fields in (answered, refused)
                ]
            },
        },
        "oneOf": [{"$ref": "#/$defs/request"}, {"$ref": "#/$defs/answer"}],
    }


@cache
def _commands() -> dict[str, Any]:
    """The commands as the command line knows them."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    for name, function in COMMANDS.items():
        app.command(name)(function)
    return dict(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


def _parameters_of(command: Any) -> list[Any]:
    """The parameters that a request may give: all but how the answer looks."""
    return [p for p in command.params if p.name not in ("json", "csv", "help")]


def _describe(parameter: Any, kinds: Mapping[str, Any]) -> dict[str, Any]:
    """A parameter in JSON Schema, by the annotation of the function that takes it."""
    told = {k for k in (kinds[parameter.name], *get_args(kinds[parameter.name])) if k is not type(None)}
    # Numbers are taken as they are written where the command takes a text: 0.1 stays a tenth.
    kind: dict[str, Any] = {"type": next((name for k, name in _TYPES.items() if k in told), ["string", "number"])}
    if parameter.multiple or parameter.nargs == -1:
        kind = {"type": "array", "items": {"type": "string"}}
    return {**kind, "description": parameter.help} if parameter.help else kind


def _read(line: bytes) -> Mapping[str, Any]:
    if len(line) > LONGEST:
        raise UsageError(f"a request of more than {LONGEST:,} bytes; send less, and large tables as files")
    try:
        request = json.loads(line, parse_float=str)
    except (ValueError, RecursionError):
        raise UsageError("a request that is not JSON; send one object a line") from None
    if not isinstance(request, dict):
        raise UsageError('a request that is not an object; send {"command": …, "arguments": {…}}')
    name = request.get("id")
    if name is not None and (isinstance(name, bool) or not isinstance(name, str | int)):
        request["id"] = None
        raise UsageError("an id that is neither text nor a whole number")
    return request


def _run(request: Mapping[str, Any]) -> Any:
    if unknown := sorted(set(request) - {"id", "command", "arguments"}):
        raise UsageError(f"'{unknown[0]}' is not part of a request, which has id, command and arguments")
    command = _commands().get(str(request.get("command")))
    if command is None:
        raise UsageError(f"the command is not known; there are {', '.join(COMMANDS)}")
    words = _words(command, request.get("arguments"))
    held = io.StringIO()
    with contextlib.redirect_stdout(held):
        code = command.main(args=words, prog_name="dipsmith", standalone_mode=False)
    if isinstance(code, int) and code:
        raise Failure("the command was stopped", code)
    return json.loads(held.getvalue())


def _words(command: Any, given: Any) -> list[str]:
    """A request's arguments as words of the command line, in a form in which no value is taken for an option."""
    arguments = {} if given is None else given
    if not isinstance(arguments, dict):
        raise UsageError("arguments is not an object of names and values")
    offered = {p.name: p for p in _parameters_of(command)}
    if unknown := sorted(set(arguments) - set(offered)):
        raise UsageError(f"{command.name} has no argument '{unknown[0]}'; it has {', '.join(offered)}")
    options, places = ["--json"], ["--"]
    for name, parameter in offered.items():
        value = arguments.get(name)
        if value is None or value is False:
            continue
        several = parameter.multiple or parameter.nargs == -1
        values = value if several and isinstance(value, list) else [value]
        if parameter.param_type_name == "argument":
            places += [_word(name, v) for v in values]
        elif value is True:
            if not parameter.is_flag:
                raise UsageError(f"'{name}' is true, expected a value")
            options.append(str(parameter.opts[0]))
        else:
            options += [f"{parameter.opts[0]}={_word(name, v)}" for v in values]
    return options + places


def _word(name: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise UsageError(f"'{name}' is neither a text nor a number")
    return str(value)


def _refusal(name: Any, failure: Failure) -> dict[str, Any]:
    return {"id": name, "ok": False, "error": {"message": str(failure), "exit_code": failure.exit_code}}
