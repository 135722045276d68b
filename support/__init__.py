"""What every package needs besides the records: errors, texts, secrets, files and SQLite."""
