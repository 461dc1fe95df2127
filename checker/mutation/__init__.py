"""Mutation: how many mutants of a system do its properties find?"""
