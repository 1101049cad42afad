"""Orders of results that depend on hashes in HAPI.

* The alternatives of a token search are in the order of HAPI's index hashes, since H2 reads a list of hashes ascending.
* Included resources are in the order of a Java HashSet.
* If a request contains several errors, HAPI reports the error of the parameter that is first in a Java HashMap.

All of this was observed in HAPI FHIR 7.6.0. It follows from the definitions of MurmurHash3 (Austin Appleby, public
domain) and `java.util.HashMap`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar
from urllib.parse import quote

Item = TypeVar("Item", bound=Hashable)

_MASK = (1 << 64) - 1
_C1, _C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F


def index_hash(*values: str) -> int:
    """HAPI's hash of the parts of an index value: type, parameter, system (if there is one), value."""
    return _murmur3("".join(quote(value, safe="*") + "|" for value in values).encode())


def java_hash(text: str) -> int:
    """Java's `String.hashCode` over UTF-16 units, as an unsigned number."""
    data, code = text.encode("utf-16-be"), 0
    for high, low in zip(data[::2], data[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    return code


def id_hash(number: int) -> int:
    """HAPI's hash of the id of the resource with this number: `Objects.hash` of no version and the number."""
    return 31 * (31 + 31) + number


def java_order(items: Iterable[Item], hash_of: Callable[[Item], int]) -> list[Item]:
    """The items in the order of a Java HashSet or HashMap, each once."""
    hashes = {item: hash_of(item) for item in items}
    capacity = 16
    while len(hashes) > capacity * 3 // 4:
        capacity *= 2
    return sorted(hashes, key=lambda item: (hashes[item] ^ hashes[item] >> 16) & (capacity - 1))


def _rotate(number: int, bits: int) -> int:
    return (number << bits | number >> (64 - bits)) & _MASK


def _mix1(k: int) -> int:
    return _rotate(k * _C1 & _MASK, 31) * _C2 & _MASK


def _mix2(k: int) -> int:
    return _rotate(k * _C2 & _MASK, 33) * _C1 & _MASK


def _finish(k: int) -> int:
    k = (k ^ k >> 33) * 0xFF51AFD7ED558CCD & _MASK
    k = (k ^ k >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return k ^ k >> 33


def _murmur3(data: bytes) -> int:
    """The first half of MurmurHash3_x64_128 with seed 0, as a signed number."""
    h1 = h2 = 0
    whole = len(data) // 16 * 16
    for start in range(0, whole, 16):
        k1, k2 = struct.unpack_from("<QQ", data, start)
        h1 = (_rotate(h1 ^ _mix1(k1), 27) + h2) * 5 + 0x52DCE729 & _MASK
        h2 = (_rotate(h2 ^ _mix2(k2), 31) + h1) * 5 + 0x38495AB5 & _MASK
    tail = data[whole:]
    h2 ^= _mix2(int.from_bytes(tail[8:], "little"))
    h1 ^= _mix1(int.from_bytes(tail[:8], "little"))
    h1 ^= len(data)
    h2 ^= len(data)
    h1 = h1 + h2 & _MASK
    h2 = h2 + h1 & _MASK
    total = _finish(h1) + _finish(h2) & _MASK
    return total - (1 << 64) if total >> 63 else total
