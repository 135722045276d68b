"""SQLite for opduel."""
