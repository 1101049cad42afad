"""`python -m fhir_server --data FILE.sqlite`: serves FHIR on a port."""

from __future__ import annotations

import argparse
import socket
import sqlite3
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fhir_server.access import Access, is_loopback
from fhir_server.errors import ServerError
from fhir_server.processes import helper
from fhir_server.server import Server

ANY = ("0.0.0.0", "::")
"""All addresses of the machine."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Serves until a signal stops it. The exit status is 1 if the server cannot start."""
    options = _parser().parse_args(arguments)
    try:
        serve(
            options.data,
            options.host,
            options.port,
            Access(options.token, options.cors, options.allow_host, options.episodes, options.export),
            options.insecure,
            not options.no_reference_check,
            options.durable,
            options.allow_hook,
        )
    except ServerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m fhir_server", description="Serve FHIR R4 from a file, with HAPI's answers."
    )
    parser.add_argument("--data", type=Path, required=True, metavar="FILE.sqlite", help="the store; created if absent")
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1: this machine only)"
    )
    parser.add_argument("--port", type=int, default=8080, help="port to listen on (default 8080); 0 chooses a free one")
    parser.add_argument("--token", help="the bearer token that every request must carry")
    parser.add_argument(
        "--insecure", action="store_true", help="allow other addresses than this machine's without a token"
    )
    parser.add_argument(
        "--cors", nargs="+", default=(), metavar="ORIGIN", help="origins whose web pages may use the server; * for all"
    )
    parser.add_argument(
        "--allow-host",
        nargs="+",
        default=(),
        metavar="NAME",
        help="host names that requests may use besides localhost; not needed with --token",
    )
    parser.add_argument(
        "--episodes",
        action="store_true",
        help="open private copies of the data on request (POST /episodes), each with its own path and token; "
        "the data themselves stay read-only; needs --token",
    )
    parser.add_argument("--export", action="store_true", help="offer bulk exports ($export) of all data as NDJSON")
    parser.add_argument(
        "--durable", action="store_true", help="keep writes after a power failure: each write waits for the disk"
    )
    parser.add_argument(
        "--allow-hook",
        nargs="+",
        default=(),
        metavar="HOST",
        help="hosts that Subscriptions may notify; to allow this machine, name it too",
    )
    parser.add_argument("--no-reference-check", action="store_true", help="accept references to missing resources")
    return parser


def serve(
    data: Path,
    host: str,
    port: int,
    access: Access,
    insecure: bool,
    reference_check: bool,
    durable: bool = False,
    hooks: Sequence[str] = (),
) -> None:
    """Opens the store and serves it until a signal comes.

    Requests may also name the server by `host`, unless that is all addresses. `hooks` are the hosts that Subscriptions
    may notify.

    Raises:
        ServerError: the address is not loopback and there is neither a token nor `insecure`; the port is in use; or the
            file cannot be used.
    """
    if access.episodes and not access.token:
        raise ServerError("--episodes needs --token: its holder opens episodes and reads what agents wrote to them")
    if access.episodes and access.export:
        raise ServerError(
            "--export and --episodes exclude each other: --export reads the data, --episodes serves copies of them"
        )
    if not is_loopback(host) and not access.token and not insecure:
        raise ServerError(f"{host} can be reached from other machines: set --token, or pass --insecure")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=1024)
    except (OSError, OverflowError) as error:
        raise ServerError(f"cannot listen on {host}:{port}: {error}; choose another --port") from error
    if host not in ANY:
        access = replace(access, hosts=(*access.hosts, host))
    base = _base(host, listener.getsockname()[1])
    try:
        with listener, Server.open(data, base, reference_check=reference_check, durable=durable) as server:
            server.deliver_to(hooks)
            if access.export:
                server.offer_exports()
            print(f"fhir_server: {server.context.base} from {data}", file=sys.stderr, flush=True)
            helper.run(server, listener, access)
    except sqlite3.DatabaseError as error:
        advice = "restore it from a copy, or try `sqlite3 FILE .recover`"
        raise ServerError(f"{data}: the file cannot be read: {error}; {advice}") from error


def _base(host: str, port: int) -> str:
    """The base address in links."""
    name = host
    if is_loopback(host):
        name = "localhost"
    elif host in ANY:
        name = socket.gethostname()
    return f"http://{f'[{name}]' if ':' in name else name}:{port}/fhir"


if __name__ == "__main__":
    sys.exit(main())
