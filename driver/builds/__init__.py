"""Builds: from what the user asked for to an interpreter that imports the framework, kept in a cache."""

from opduel.driver.builds.cache import BuildCache
from opduel.driver.builds.releases import Recipe, Releases, load_releases
from opduel.driver.builds.resolve import recipe_of, resolve_build

__all__ = ["BuildCache", "Recipe", "Releases", "load_releases", "recipe_of", "resolve_build"]
