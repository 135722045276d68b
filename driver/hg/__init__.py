"""Mercurial repositories: pulled by `hg`, and converted to git commits that keep their Mercurial ids."""
