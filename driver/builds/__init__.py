"""Builds: from what the user asked for to an interpreter that imports the framework, kept in a cache."""

from driver.builds.cache import BuildCache
from driver.builds.releases import Recipe, Releases, load_releases
from driver.builds.resolve import recipe_of, resolve_build

__all__ = ["BuildCache", "Recipe", "Releases", "load_releases", "recipe_of", "resolve_build"]
