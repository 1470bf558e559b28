"""Pages of the documentation that are written from the code when the site is built."""
