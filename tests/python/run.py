#!/usr/bin/env python3
"""Runs the tests of the Python package, if this interpreter has torch and pytest."""

import pathlib
import sys

try:
    import pytest
    import torch  # noqa: F401
except ImportError as error:
    print(f"{error}: the tests of the Python package are skipped (scripts/setup installs python3-torch, python3-pytest)")
    sys.exit(77)

folder = pathlib.Path(__file__).parent
sys.exit(pytest.main([str(folder), "-q", "-p", "no:cacheprovider", "-W", "error::DeprecationWarning:geores", *sys.argv[1:]]))
