"""Check the graph of a saved network before a framework reads it."""

from pathlib import Path
from typing import Any

from opduel.records import UsageError
from opduel.support.files import TooLargeError, UnreadableError, parse_json, read_text

MAX_BYTES = 32 * 2**20
MAX_NODES = 50_000
MAX_DEPTH = 4  # of graphs within graphs
MAX_OUTPUTS = 10_000  # of one node
ATTRIBUTES = ("attrs", "attr", "param")  # newest first; the older ones are those of older files


def check_graph_file(path: Path) -> None:
    """Return if the file holds a graph as frameworks save it: nodes in order, each with inputs from those before it.
    UsageError: one line that names the file, the field and what is wrong."""
    try:
        graph = parse_json(read_text(path, MAX_BYTES, pipes=False))
    except TooLargeError as error:
        raise UsageError(f"{path}: {error}: is this the graph, or its parameters?") from None
    except UnreadableError as error:
        raise UsageError(f"{path}: cannot be read: {error}: give a saved symbol, or the name of a model") from None
    try:
        _check(graph, 0)
    except ValueError as error:
        raise UsageError(f"{path}: {error}: save the network again") from None


def _check(graph: Any, depth: int) -> None:
    """Raise ValueError with field and reason if the graph is invalid."""
    _require(depth <= MAX_DEPTH, f"subgraphs are nested more than {MAX_DEPTH} deep")
    _require(isinstance(graph, dict), "is not an object with nodes, arg_nodes and heads")
    for name in ("nodes", "arg_nodes", "heads"):
        _require(isinstance(graph.get(name), list), f"{name} is missing or not a list")
    nodes = graph["nodes"]
    _require(len(nodes) <= MAX_NODES, f"nodes has {len(nodes)} entries, more than {MAX_NODES}")
    for number, node in enumerate(nodes):
        _check_node(node, number, depth)
    _require(bool(graph["heads"]), "heads is empty")
    for number, head in enumerate(graph["heads"]):
        _check_entry(head, len(nodes), f"heads[{number}]")
    for number, index in enumerate(graph["arg_nodes"]):
        _require(_is_index(index, len(nodes)), f"arg_nodes[{number}] is not a node's number")


def _check_node(node: Any, number: int, depth: int) -> None:
    where = f"nodes[{number}]"
    _require(isinstance(node, dict), f"{where} is not an object")
    for name in ("op", "name"):
        is_text = isinstance(node.get(name), str) and node[name].isprintable()
        _require(is_text, f"{where}.{name} is missing or not a string")
    _require(isinstance(node.get("inputs"), list), f"{where}.inputs is missing or not a list")
    for index, entry in enumerate(node["inputs"]):
        _check_entry(entry, number, f"{where}.inputs[{index}]")
    for name in ATTRIBUTES:
        attributes = node.get(name, {})
        are_texts = isinstance(attributes, dict) and all(isinstance(value, str) for value in attributes.values())
        _require(are_texts, f"{where}.{name} is not an object of strings")
    subgraphs = node.get("subgraphs", [])
    _require(isinstance(subgraphs, list), f"{where}.subgraphs is not a list")
    for inner in subgraphs:
        _check(inner, depth + 1)


def _check_entry(entry: Any, nodes: int, where: str) -> None:
    """Check ``[node, output]`` or ``[node, output, version]`` of one of the first ``nodes`` nodes."""
    _require(isinstance(entry, list) and len(entry) in (2, 3), f"{where} is not [node, output, version]")
    _require(_is_index(entry[0], nodes), f"{where} does not refer to an output of an earlier node")
    is_output = all(_is_index(part, MAX_OUTPUTS) for part in entry[1:])
    _require(is_output, f"{where} is not an output of its node")


def _require(is_valid: bool, problem: str) -> None:
    if not is_valid:
        raise ValueError(problem)


def _is_index(value: Any, end: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < end
