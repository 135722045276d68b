"""Builds: turn what the user asked for into an interpreter that imports the framework, and keep it in a cache."""

from opduel.driver.builds.cache import BuildCache
from opduel.driver.builds.framework_data import Releases, load_releases
from opduel.driver.builds.recipes import Recipe
from opduel.driver.builds.resolve import recipe_of, resolve_build

__all__ = ["BuildCache", "Recipe", "Releases", "load_releases", "recipe_of", "resolve_build"]
