"""Views of results: tables, plots and a report page; nothing is measured here."""
