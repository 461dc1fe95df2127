"""The live page: a system that is walked through in a browser, and read again as its files change."""
