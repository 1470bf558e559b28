"""The live server: streams on a page, with metrics and an API."""
