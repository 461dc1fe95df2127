"""Runs of which only the events are read: do they show what went wrong, and nothing else?"""
