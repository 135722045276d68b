"""Files that cases need: fetched once, kept in a cache by checksum, unpacked."""

from opduel.harness.models.cache import checksum_of, fetch_files, original_of, place_of
from opduel.harness.models.download import Limits

__all__ = ["Limits", "checksum_of", "fetch_files", "original_of", "place_of"]
