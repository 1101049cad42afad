"""Makes the clients importable, which are in the same folder as their tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
