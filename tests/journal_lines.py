"""Lines of a journal that a test changed."""

from __future__ import annotations

import re
import zlib


def checked_line(line: str) -> str:
    """A row with the checksum of what it holds now."""
    text = re.sub(r',"crc32":"\w+"\}$', "", line)
    return f'{text},"crc32":"{zlib.crc32(text.encode()):08x}"}}'
