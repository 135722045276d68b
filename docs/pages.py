"""Generate the pages of the site that come from the code, at every build: a hook of mkdocs (mkdocs.yml).

Options come from the parsers, the fields of specs and reports from their models, the architecture from its file.
"""

import argparse
import html
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, create_model
from pydantic._internal._docs_extraction import extract_docstrings_from_cls

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # mkdocs is started from its own folder

from opduel.commands.catalogue import catalogue_parser  # noqa: E402
from opduel.commands.driver_options import driver_parser  # noqa: E402
from opduel.commands.fleet_options import fleet_parser  # noqa: E402
from opduel.commands.options import harness_parser  # noqa: E402
from opduel.commands.run_bench import run_bench_parser  # noqa: E402
from opduel.commands.subcommand_parsers import spec_from_parser  # noqa: E402
from opduel.driver.catalogue.rules import Rules  # noqa: E402
from opduel.harness.specs.schema import schema_text  # noqa: E402
from opduel.records.report import Report  # noqa: E402
from opduel.records.run_record import CommonRunRecord, RunLabels  # noqa: E402
from opduel.server.command_line import server_parser  # noqa: E402

PARSERS = {
    "harness": harness_parser,
    "run_bench": run_bench_parser,
    "spec_from": spec_from_parser,
    "repo_driver": driver_parser,
    "server": server_parser,
    "fleet": fleet_parser,
    "catalogue": catalogue_parser,
}
TYPES = {"boolean": "`true` or `false`", "null": "null"}


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages; called by mkdocs."""
    from mkdocs.structure.files import File

    for path, text in generated().items():
        files.append(File.generated(config, path, content=text))
    return files


def generated() -> dict[str, str]:
    """Return all generated pages in Markdown, by their paths below docs/."""
    pages = {f"reference/options/{name}.md": options_page(parser()) for name, parser in PARSERS.items()}
    pages["reference/spec-fields.md"] = schema_page(
        "Fields of a spec",
        "A spec is a JSON file. [Specs](specs.md) explains it; editors check it by `specifications/spec.schema.json`, "
        "which has the same fields.",
        json.loads(schema_text()),
    )
    pages["reference/report-fields.md"] = schema_page(
        "Fields of a report",
        "A `report.json` is one JSON object ([reports](report.md)). The fields of `RunConfiguration` are options of "
        "[harness.py](options/harness.md) and [repo_driver.py](options/repo_driver.md).",
        report_schema(),
    )
    pages["reference/catalogue-rules.md"] = schema_page(
        "Rules of a catalogue",
        "The [catalogue](specs.md#the-catalogue) is made by these rules, a YAML file for each framework.",
        Rules.model_json_schema(),
    )
    architecture = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    pages["explanation/architecture.md"] = architecture.replace("](docs/", "](../")
    return pages


def options_page(parser: argparse.ArgumentParser) -> str:
    """Return a page of a command's options, in the groups and the order of its help, each subcommand in a section."""
    lines = [f"# {parser.prog}", ""]
    for command in _commands(parser):
        if command is not parser:
            lines += [f"## {command.prog}", ""]
        if command.description:
            lines += [_text(command.description), ""]
        for group in command._action_groups:
            actions = [action for action in group._group_actions if not isinstance(action, argparse._SubParsersAction)]
            rows = [_row(action, command) for action in actions if action.help != argparse.SUPPRESS]
            if rows:
                title = group.title or ""
                lines += [f"{'##' if command is parser else '###'} {title[:1].upper()}{title[1:]}", ""]
                lines += [_text(group.description), ""] if group.description else []
                lines += ["| option | meaning |", "|---|---|", *rows, ""]
        if command.epilog:
            lines += [_text(command.epilog), ""]
    return "\n".join(lines)


def _commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                yield from _commands(child)


def _row(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    formatter = parser._get_formatter()
    if action.option_strings:
        argument = "" if action.nargs == 0 else formatter._format_args(action, _metavar(action))
        names = [f"{name} {argument}".strip() for name in action.option_strings]
    else:
        names = [formatter._format_args(action, _metavar(action)) if action.nargs else _metavar(action)]
    meaning = formatter._expand_help(action) if action.help else ""
    if action.choices and action.metavar:
        meaning += f" One of {', '.join(map(str, action.choices))}."
    required = " Required." if action.required and action.option_strings else ""
    first = ", ".join(f"`{name}`" for name in names).replace("|", "\\|")
    return f"| {first} | {_text(meaning)}{required} |"


def _metavar(action: argparse.Action) -> str:
    if isinstance(action.metavar, str):
        return action.metavar
    return "{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest.upper()


def _text(text: str) -> str:
    """Write plain text as one line of Markdown; what docstrings quote as code stays code."""
    line = " ".join(text.split()).replace("``", "`")
    parts = re.split(r"(`[^`]*`)", line)
    return "".join(part.replace("|", "\\|") if part.startswith("`") else _escaped(part) for part in parts)


def _escaped(text: str) -> str:
    return re.sub(r"([\\*_\[\]])", r"\\\1", html.escape(text, quote=False)).replace("|", "&#124;")


def schema_page(title: str, introduction: str, schema: Mapping[str, Any]) -> str:
    """Return a page of the fields of a JSON Schema: those of the document first, then those of each object within."""
    lines = [f"# {title}", "", introduction, "", f"## {schema['title'].capitalize()}", ""]
    lines += _fields(schema)
    for name, part in described(schema).items():
        lines += [f"## {name}", "", *_fields(part)]
    return "\n".join(lines)


def report_schema() -> dict[str, Any]:
    """Return the JSON Schema of a report: every field is always written, and described by its docstring."""
    document = create_model("Document", __config__=ConfigDict(use_attribute_docstrings=True), report=(Report, ...))
    definitions = document.model_json_schema(mode="serialization")["$defs"]
    for base in (RunLabels, CommonRunRecord):  # pydantic takes the texts of a class's own fields only
        for name, text in extract_docstrings_from_cls(base, use_inspect=True).items():
            definitions["RunRecord"]["properties"][name]["description"] = text
    for part in definitions.values():
        part.pop("required", None)
        for field in part.get("properties", {}).values():
            field.pop("default", None)
    return {**definitions.pop("Report"), "$defs": definitions}


def described(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definitions of the objects within a document by name, without those that only restrict others."""
    return dict(sorted(schema.get("$defs", {}).items()))


def _fields(part: Mapping[str, Any]) -> list[str]:
    lines = [_paragraphs(part["description"]), ""] if "description" in part else []
    if not part.get("properties"):
        return [*lines, f"Type: {_type(part)}", ""]
    required = part.get("required", ())
    lines += ["| field | type | meaning |", "|---|---|---|"]
    for name, field in part["properties"].items():
        meaning = [_text(field["description"])] if "description" in field else []
        if name in required:
            meaning.append("Required.")
        elif field.get("default") is not None:
            meaning.append(f"Default: `{json.dumps(field['default'])}`.")
        lines.append(f"| `{name}` | {_type(field)} | {' '.join(meaning)} |")
    return [*lines, ""]


def _paragraphs(text: str) -> str:
    return "\n\n".join(_text(paragraph) for paragraph in text.split("\n\n"))


def _type(field: Mapping[str, Any]) -> str:
    """Describe a field's type, with links to the objects on the page."""
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for key in ("anyOf", "oneOf"):
        if key in field:
            return " or ".join(dict.fromkeys(_type(alternative) for alternative in field[key]))
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if "const" in field:
        return f"`{field['const']}`"
    return _plain_type(field)


def _plain_type(field: Mapping[str, Any]) -> str:
    kind = str(field.get("type", "any JSON value"))
    if kind == "array":
        items = field.get("items") or {}
        return f"list of {_type(items)}" if items else "list"
    if kind == "object" and isinstance(field.get("additionalProperties"), Mapping):
        return f"object of {_type(field['additionalProperties'])}"
    if kind in ("number", "integer"):
        return f"{kind}{_bounds(field)}"
    return TYPES.get(kind, kind)


def _bounds(field: Mapping[str, Any]) -> str:
    words = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}
    bounds = [f"{word} {field[key]}" for key, word in words.items() if key in field]
    return f" ({', '.join(bounds)})" if bounds else ""
