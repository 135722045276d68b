"""The files that reports and pages are shown with: unchanged, licensed, and to be read by everyone."""

import hashlib
import re

import pytest

from opduel.reporters.assets import FOLDER, PLOT_CLASS, asset, csp_hash, flame_style
from opduel.reporters.summary import WORST_FIRST

README = (FOLDER / "README.md").read_text(encoding="utf-8")
LEAST_CONTRAST = 4.5  # WCAG 2.2, level AA, for text


@pytest.mark.parametrize("name", ["d3.min.js", "plot.min.js", "d3-flamegraph.min.js"])
def test_the_library_is_what_its_makers_released(name: str) -> None:
    digest = hashlib.sha256((FOLDER / name).read_bytes()).hexdigest()
    assert f"| `{name}` | {digest} |" in README


@pytest.mark.parametrize(
    "name", ["d3.min.js", "plot.min.js", "d3-flamegraph.min.js", "theme.css", "table.js", "flame.js"]
)
def test_a_file_can_stand_within_a_page_and_asks_for_no_other(name: str) -> None:
    text = asset(name)
    assert "</script" not in text.lower()
    assert "</style" not in text.lower()
    assert "<!--" not in text
    assert "sourceMappingURL" not in text
    assert "@import" not in text


def test_the_licences_name_every_part_and_fit_into_a_comment() -> None:
    text = asset("LICENSES.txt")
    for name in ("d3 ", "Observable Plot", "interval-tree-1d", "binary-search-bounds", "isoformat", "d3-flame-graph"):
        assert f"== {name}" in text
    versions = [re.search(r"v(\d+\.\d+\.\d+)", asset(name)[:80])[1] for name in ("d3.min.js", "plot.min.js")]  # type: ignore[index]
    assert [f"== d3 {versions[0]} ==" in text, f"== Observable Plot {versions[1]} ==" in text] == [True, True]
    assert "*/" not in text


def test_a_hash_is_as_a_content_security_policy_wants_it() -> None:
    # The example of the standard: alert('Hello, world.');
    assert csp_hash("alert('Hello, world.');") == "'sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng='"


def test_the_flame_graphs_style_is_that_of_its_script() -> None:
    style = flame_style()
    assert style.startswith(".d3-flame-graph rect{")
    assert style.endswith("/*$vite$:1*/")


def test_the_theme_knows_the_class_of_plots() -> None:
    assert f".{PLOT_CLASS} {{" in asset("theme.css")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_colour_of_text_can_be_read(scheme: str) -> None:
    light, dark = asset("theme.css").split("@media screen and (prefers-color-scheme: dark)", 1)
    block = light if scheme == "light" else dark.partition("\n}\n")[0]
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))
    grounds = [colours[name] for name in ("surface", "raised", "band")]
    for name in (*WORST_FIRST, "text", "muted", "link", "control", "treatment"):
        for ground in grounds:
            assert contrast(colours[name], ground) >= LEAST_CONTRAST, (name, ground)
    assert contrast(colours["text"], colours["warning-surface"]) >= LEAST_CONTRAST


def contrast(first: str, other: str) -> float:
    """The contrast of two colours, 1 to 21, as WCAG defines it."""
    dark, light = sorted((luminance(first), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return sum(share * value for share, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
