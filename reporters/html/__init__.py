"""A report as one self-contained page: from disk, without a network, for people who didn't make the run."""

from opduel.reporters.html.page import to_html as to_html
from opduel.reporters.html.page import to_notebook_html as to_notebook_html
from opduel.reporters.html.page import write_page as write_page
