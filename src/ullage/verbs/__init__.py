"""One file, one verb of the command line; each is a function of the package by the same name.

A verb takes plain values, does the work and returns the document that its `--json` prints.
"""
