# One command: `make` checks the format, lint and types, and runs all tests. Needs `pip install -e '.[check]'`.
PYTHON ?= python

.PHONY: check fix docs

check:
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .
	$(PYTHON) -m pyright --pythonpath "$$($(PYTHON) -c 'import sys; print(sys.executable)')"
	$(PYTHON) -m pytest

fix:
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .

docs:
	$(PYTHON) docs/make.py
