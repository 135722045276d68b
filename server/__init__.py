"""The results server: reports from many machines, kept whole in a database, and asked through an API and pages."""
