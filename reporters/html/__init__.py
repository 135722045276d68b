"""A report as one self-contained page: from disk, without a network, for people who didn't make the run."""

from opduel.reporters.html.page import PAGE_NAME, to_html, write_page

__all__ = ["PAGE_NAME", "to_html", "write_page"]
