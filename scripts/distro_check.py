#!/usr/bin/env python3
"""The nightly check: compare the dumps of all members. Runs by itself or through spark-submit."""

import sys
from pathlib import Path

# spark-submit starts this file with nothing but its own folder on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from app.audit.check.command import main

if __name__ == "__main__":
    sys.exit(main())
