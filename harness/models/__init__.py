"""Files that cases need: fetched once, kept in a cache by checksum, unpacked."""

from opduel.harness.models.cache import fetch_files
from opduel.harness.models.download import Limits

__all__ = ["Limits", "fetch_files"]
