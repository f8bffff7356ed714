#!/usr/bin/env python3
"""The nightly check: compare the dumps of all members. Runs by itself or through spark-submit."""

import sys
from pathlib import Path

CANNOT_JUDGE = 2

# spark-submit starts this file with only its own folder on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

try:
    from app.tools.audit.check.command import main
except ImportError as error:
    # Exit code 1 would be read as "divergent".
    print(
        f"could not judge: this Python ({sys.executable}) has no package {error.name}: "
        "pip install 'rollcall-registry[audit]', or use the one of the environment: .venv/bin/rollcall check"
    )
    sys.exit(CANNOT_JUDGE)

if __name__ == "__main__":
    sys.exit(main())
