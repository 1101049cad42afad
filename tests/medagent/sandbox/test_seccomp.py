"""The filter of system calls, carried out step by step as the kernel does, for both machines."""

from __future__ import annotations

import errno
import struct
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medagent.sandbox._seccomp import program
from medagent.sandbox.base import SandboxError

ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
NUMBERS = {
    "x86_64": {
        "read": 0, "fork": 57, "vfork": 58, "clone": 56, "socket": 41, "socketpair": 53, "execve": 59,
        "setxattr": 188, "lsetxattr": 189, "fsetxattr": 190, "getxattr": 191, "listxattr": 194, "setxattrat": 463,
    },
    "aarch64": {
        "read": 63, "clone": 220, "socket": 198, "socketpair": 199, "execve": 221,
        "setxattr": 5, "lsetxattr": 6, "fsetxattr": 7, "getxattr": 8, "listxattr": 11, "setxattrat": 463,
    },
}  # fmt: skip
REFUSED = ("fork", "vfork", "clone", "socket", "setxattr", "lsetxattr", "fsetxattr", "setxattrat")
ALLOW, KILL, EPERM, ENOSYS = 0x7FFF0000, 0x80000000, 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS
THREAD, CHILD = 0x00010000 | 0x100, 17


filter_of = cache(program)


def verdict(machine: str, architecture: int, number: int, argument: int = 0) -> int:
    """What the filter returns for a call, by the rules of classic BPF."""
    data = struct.pack("<IIQ6Q", number, architecture, 0, argument, 0, 0, 0, 0, 0)
    steps = list(struct.iter_unpack("=HBBI", filter_of(machine)))
    place = value = 0
    while True:
        code, if_true, if_false, operand = steps[place]
        place += 1
        if code == 0x06:
            return int(operand)
        if code == 0x20:
            (value,) = struct.unpack_from("<I", data, operand)
        else:
            holds = {0x15: value == operand, 0x35: value >= operand, 0x45: bool(value & operand)}[code]
            place += if_true if holds else if_false


@pytest.mark.parametrize("machine", ARCHITECTURE)
def test_no_call_makes_a_process_a_socket_or_an_attribute(machine: str) -> None:
    architecture, numbers = ARCHITECTURE[machine], NUMBERS[machine]
    assert {name: verdict(machine, architecture, number, CHILD) for name, number in numbers.items()} == {
        name: EPERM if name in REFUSED else ALLOW for name in numbers
    }
    assert verdict(machine, architecture, numbers["clone"], THREAD) == ALLOW
    assert verdict(machine, architecture, 435, THREAD) == ENOSYS


@pytest.mark.parametrize("machine", ARCHITECTURE)
@given(number=st.integers(0, 2**32 - 1), architecture=st.integers(0, 2**32 - 1))
def test_a_call_of_another_architecture_kills(machine: str, number: int, architecture: int) -> None:
    if architecture != ARCHITECTURE[machine]:
        assert verdict(machine, architecture, number) == KILL


@given(number=st.integers(0x40000000, 2**32 - 1))
def test_the_second_numbering_of_x86_64_kills(number: int) -> None:
    assert verdict("x86_64", ARCHITECTURE["x86_64"], number) == KILL


def test_an_unknown_machine_has_no_filter() -> None:
    with pytest.raises(SandboxError, match="system calls cannot be filtered on riscv64"):
        program("riscv64")
