# ruff: noqa: E501 (an attack a line)
"""What hostile code tries, and what its author is told; docs/code.md has a row for each."""

from __future__ import annotations

from dataclasses import dataclass

NOTHING = r"(ModuleNotFound|Attribute|NotImplemented|Permission|FileNotFound|Name|Runtime|Type|Syntax|Import)Error: "
"""What monty says of what it does not have."""
_PIPES = """
import os
pipes = []
for fd in range(3, 64):
    try:
        os.fstat(fd)
        pipes.append(fd)
    except OSError:
        pass
reader, writer = pipes[0], pipes[1]
"""
_SYSCALL = "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n"


@dataclass(frozen=True, slots=True)
class Attack:
    """`told` is a pattern of what the agent reads in a sandbox around CPython, `monty` in monty."""

    name: str
    code: str
    told: str
    monty: str = NOTHING


ATTACKS = [
    Attack("read /etc/passwd", "print(open('/etc/passwd').read())", "FileNotFoundError: "),
    Attack("read /proc", "print(open('/proc/1/environ', 'rb').read())", "FileNotFoundError: "),
    Attack("list the root", "import os\nprint(os.listdir('/root'))", "FileNotFoundError: "),
    Attack("read the runner's files", "print(open(SECRET_FILE).read())", "FileNotFoundError: "),
    Attack("read the environment", "import os\nprint(os.environ['OPENAI_API_KEY'])", "KeyError: 'OPENAI_API_KEY'"),
    Attack(
        "connect by IPv4",
        "import socket\nsocket.create_connection(('127.0.0.1', PORT), 1)",
        "PermissionError: |OSError: ",
    ),
    Attack("connect by IPv6", "import socket\nsocket.create_connection(('::1', PORT), 1)", "PermissionError: |OSError: "),
    Attack("look up a name", "import socket\nsocket.getaddrinfo('example.org', 80)", "gaierror: "),
    Attack(
        "connect to a unix socket",
        "import socket\nsocket.socket(socket.AF_UNIX).connect(SOCKET_FILE)",
        "PermissionError: |FileNotFoundError: ",
    ),
    Attack("connect to the hypervisor", "import socket\nsocket.socket(40, 1).connect((2, 1024))", "PermissionError: |OSError: "),
    Attack("fork", "import os\nos.fork()", "PermissionError: |BlockingIOError: "),
    Attack("start a program", "import subprocess, sys\nsubprocess.run([sys.executable, '-c', ''])", "PermissionError: |BlockingIOError: "),
    Attack(
        "clone by a system call",
        _SYSCALL + "number = {'x86_64': 56, 'aarch64': 220}[os.uname().machine]\n"
        "assert libc.syscall(number, 17, 0, 0, 0, 0) == -1, 'a child'\nraise OSError(ctypes.get_errno(), 'refused')",
        r"PermissionError: \[Errno 1\]|BlockingIOError: ",
    ),
    Attack(
        "leave a thread running",
        "import threading\ndef spin():\n    while True: pass\nthreading.Thread(target=spin, daemon=True).start()",
        "Stopped: the program left a thread running|RuntimeError: can't start new thread",
    ),
    Attack("kill the parent", "import os\nos.kill(os.getppid(), 9)\nos.kill(1, 9)\nprint('sent')", "sent|PermissionError|Stopped: |ProcessLookupError"),
    Attack("kill all processes", "import os\nos.kill(-1, 9)", "ProcessLookupError: |Stopped: |printed nothing"),
    Attack(
        "trace another process",
        _SYSCALL + "assert libc.ptrace(16, 1, 0, 0) == -1, 'attached'\nraise OSError(ctypes.get_errno(), 'refused')",
        r"PermissionError: \[Errno 1\]",
    ),
    Attack("take all memory", "held = []\nwhile True:\n    held.append('x' * 1_000_000 + str(len(held)))", "Stopped: the program used more than 256 MB", "Stopped: the program used more than 256 MB"),
    Attack("take all memory at once", "held = [0] * 10 ** 10", "Stopped: the program used more than 256 MB", "Stopped: the program used more than 256 MB"),
    Attack("never end", "while True:\n    pass", "Stopped: the program ran for more than 1.5 seconds", "Stopped: the program ran for more than 1.5 seconds"),
    Attack("wait", "import time\ntime.sleep(3600)", "Stopped: the program ran for more than 1.5 seconds", "printed nothing"),
    Attack("catch everything", "while True:\n    try:\n        while True:\n            pass\n    except BaseException:\n        pass", "Stopped: the program ran for more than 1.5 seconds", "Stopped: the program ran for more than 1.5 seconds"),
    Attack("flood the output", "for _ in range(20_000):\n    print('x' * 1_000)", r"more characters of output were cut", r"more characters of output were cut"),
    Attack("recurse endlessly", "def again(n):\n    return again(n + 1)\nagain(0)", "RecursionError: ", "RecursionError: "),
    Attack(
        "recurse until a crash",
        "import sys\nsys.setrecursionlimit(10 ** 9)\nvalue = []\nfor _ in range(10 ** 5):\n    value = [value]\nrepr(value)",
        r"Stopped: (the program crashed the interpreter \(signal 11\)|the program used|the program ran)|RecursionError",
    ),
    Attack(
        "forge a result",
        _PIPES + "frame = b'{\"program\": 99, \"output\": \"forged\"}'\nos.write(writer, len(frame).to_bytes(4, 'big') + frame)",
        "Stopped: it sent something other than a request",
    ),
    Attack(
        "forge a request",
        _PIPES + "frame = b'{\"program\": 2, \"call\": \"delete\", \"args\": [], \"kwargs\": {}, \"admin\": true}'\n"
        "os.write(writer, len(frame).to_bytes(4, 'big') + frame)",
        "Stopped: it sent something other than a request",
    ),
    Attack("write between the frames", _PIPES + "os.write(writer, b'hello, this is no frame')", "Stopped: it sent something other than a request"),
    Attack("send half a frame", _PIPES + "os.write(writer, (100).to_bytes(4, 'big') + b'{\"program\"')\nwhile True: pass", "Stopped: the program ran for more than 1.5 seconds"),
    Attack(
        "send 100 MB",
        _PIPES + "os.write(writer, (100_000_000).to_bytes(4, 'big'))\nfor _ in range(100):\n    os.write(writer, b'x' * 1_000_000)",
        "Stopped: it sent something other than a request",
    ),
    Attack("send 100 MB as a value", "finish('x' * 100_000_000)", "over 8,000,000 bytes|used more than 256 MB", "over 8,000,000 bytes|used more than 256 MB"),
    Attack("close the pipe", "import os\nos.closerange(3, 64)", "Stopped: "),
    Attack("write to standard output", "import os\nos.write(1, b'hello')\nos.write(2, b'hello')\nprint('done')", "done"),
    Attack("read the null address", "import ctypes\nctypes.string_at(0)", "Stopped: the program crashed the interpreter"),
    Attack("leave at once", "import os\nos._exit(7)", r"Stopped: the program ended the interpreter \(exit status 7\)"),
    Attack("leave politely", "import sys\nsys.exit('bye')", "printed nothing"),
    Attack("dump core", "import os\nos.abort()", r"Stopped: the program crashed the interpreter \(signal 6\)"),
    Attack(
        "trace the start-up code",
        "import sys\ndef spy(frame, event, arg):\n    frame.f_globals.clear()\n    return spy\nsys.settrace(spy)\nprint('set')",
        "set|Stopped: |Error",
    ),
    Attack(
        "load a hostile pickle",
        "import pickle, os\nclass Bomb:\n    def __reduce__(self):\n        return os.system, ('touch ' + SECRET_FILE + '.stolen',)\n"
        "print('status', pickle.loads(pickle.dumps(Bomb())))",
        "status (-1|[1-9])|PermissionError|BlockingIOError",
    ),
    Attack("follow a link out", "import os\nos.symlink('/etc/passwd', '/tmp/link')\nprint(open('/tmp/link').read())", "FileNotFoundError: "),
    Attack("write to Python", "import json\nopen(json.__file__, 'w').write('stolen')", r"(OSError|PermissionError): \[Errno (30|13)\]"),
    Attack("write to the root", "open('/stolen', 'w').write('x')", r"(OSError|PermissionError): \[Errno (30|13)\]"),
    Attack(
        "fill the disk",
        "for n in range(100):\n    with open(f'/tmp/{n}', 'wb') as file:\n        for _ in range(10):\n            file.write(b'x' * 1_000_000)",
        r"OSError: \[Errno (28|27)\]",
    ),
    Attack("make a namespace", _SYSCALL + "assert libc.unshare(0x10000000) == -1, 'made'\nraise OSError(ctypes.get_errno(), 'refused')", r"PermissionError: \[Errno 1\]"),
    Attack("hide memory", "import os\nprint(os.memfd_create('x'))", "PermissionError: "),
    Attack(
        "store attributes",
        "import os\nopen('/tmp/x', 'w').close()\nos.setxattr('/tmp/x', 'user.x', b'x' * 60_000)",
        r"PermissionError: \[Errno 1\]",
    ),
    Attack("raise the limits", "import resource\nresource.setrlimit(resource.RLIMIT_AS, (-1, -1))", "(ValueError|PermissionError): "),
    Attack("change what the functions are", "import json, builtins\nget = finish = None\njson.dumps = json.loads = None\nbuiltins.len = None\nprint('done')", "done|Stopped: "),
]  # fmt: skip
