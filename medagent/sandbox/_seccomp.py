"""A filter of system calls as classic BPF, for x86-64 and aarch64: no new processes, no sockets, no other namespaces.

A refused call returns EPERM. `clone3` returns ENOSYS, so that the C library falls back to `clone`, whose flags a filter
can read; `clone` may start threads only. A limit on the number of processes is not enough, since it does not apply to
root. Attributes of files cannot be set, since the kernel stores them outside every limit. The numbers are from the
kernel's `unistd.h`, layout and constants from seccomp(2).
"""

from __future__ import annotations

import errno
import platform
import struct

from medagent.sandbox.base import SandboxError

_LOAD, _JUMP_EQUAL, _JUMP_LEAST, _JUMP_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_CLONE_THREAD = 0x00010000
_X32 = 0x40000000
"""The bit of system calls of the x32 ABI, which uses its own numbers on x86-64."""
_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_CLONE = {"x86_64": 56, "aarch64": 220}
_CLONE3 = 435
_REFUSED: dict[str, dict[str, int]] = {
    "x86_64": {
        "fork": 57, "vfork": 58, "socket": 41, "setxattr": 188, "lsetxattr": 189, "fsetxattr": 190, "setxattrat": 463,
        "ptrace": 101, "shmget": 29, "msgget": 68, "semget": 64,
        "pivot_root": 155, "chroot": 161, "mount": 165, "umount2": 166, "init_module": 175,
        "mq_open": 240, "kexec_load": 246, "add_key": 248, "request_key": 249, "keyctl": 250, "unshare": 272,
        "perf_event_open": 298, "open_by_handle_at": 304, "setns": 308, "process_vm_readv": 310,
        "process_vm_writev": 311, "kcmp": 312, "finit_module": 313, "memfd_create": 319, "bpf": 321,
        "userfaultfd": 323, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
        "memfd_secret": 447,
    },
    "aarch64": {
        "socket": 198, "setxattr": 5, "lsetxattr": 6, "fsetxattr": 7, "setxattrat": 463,
        "ptrace": 117, "shmget": 194, "msgget": 186, "semget": 190, "pivot_root": 41, "chroot": 51,
        "mount": 40, "umount2": 39, "init_module": 105, "mq_open": 180, "kexec_load": 104, "add_key": 217,
        "request_key": 218, "keyctl": 219, "unshare": 97, "perf_event_open": 241, "open_by_handle_at": 265,
        "setns": 268, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272, "finit_module": 273,
        "memfd_create": 279, "bpf": 280, "userfaultfd": 282, "io_uring_setup": 425, "io_uring_enter": 426,
        "io_uring_register": 427, "memfd_secret": 447,
    },
}  # fmt: skip


def program(machine: str | None = None) -> bytes:
    """The filter for a machine (default: this one). Raises SandboxError for a machine without known numbers."""
    machine = machine or platform.machine()
    if machine not in _AUDIT:
        raise SandboxError(f"system calls cannot be filtered on {machine}")
    steps = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_JUMP_EQUAL, _AUDIT[machine], 1, 0),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER),
        *([_step(_JUMP_LEAST, _X32, 0, 1), _step(_RETURN, _KILL)] if machine == "x86_64" else []),
    ]
    for number in _REFUSED[machine].values():
        steps += [_step(_JUMP_EQUAL, number, 0, 1), _step(_RETURN, _ERRNO | errno.EPERM)]
    steps += [
        _step(_JUMP_EQUAL, _CLONE3, 0, 1),
        _step(_RETURN, _ERRNO | errno.ENOSYS),
        _step(_JUMP_EQUAL, _CLONE[machine], 0, 3),
        _step(_LOAD, _FIRST_ARGUMENT),
        _step(_JUMP_BITS, _CLONE_THREAD, 1, 0),
        _step(_RETURN, _ERRNO | errno.EPERM),
        _step(_RETURN, _ALLOW),
    ]
    return b"".join(steps)


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
