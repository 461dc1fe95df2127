"""Agents on hosts: they act for a site on the units of their host, by handlers that come in signed packages."""
