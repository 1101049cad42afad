"""What leaves for a file or a terminal holds no secret and no control character."""

from __future__ import annotations

import base64
import string
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medagent.core import scrub
from medagent.core.scrub import error_text, hide, printable, remember, remember_environment, safe_name
from medagent.core.wire import without_password

SECRET = "sk/a+b=ÿ%40-0123456789"


@pytest.fixture(autouse=True)
def _forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrub, "_forms", [])


@pytest.mark.parametrize("form", [str, quote, quote_plus, lambda s: quote(s, safe=""), lambda s: quote(s).lower()])
def test_a_secret_is_hidden_in_its_quoted_forms(form: object) -> None:
    remember(SECRET)
    assert callable(form)
    assert hide(f"before {form(SECRET)} after") == "before *** after"


ENCODINGS = {
    "percent": lambda text: "".join(f"%{octet:02X}" for octet in text.encode()),
    "hexadecimal": lambda text: text.encode().hex(),
    "Python": lambda text: "".join(f"\\x{octet:02x}" for octet in text.encode()),
    "JSON": lambda text: "".join(f"\\u{ord(character):04x}" for character in text),
    "HTML": lambda text: "".join(f"&#{ord(character)};" for character in text),
    "HTML, hexadecimal": lambda text: "".join(f"&#x{ord(character):X};" for character in text),
}
CASES = [str, str.upper, str.lower, str.swapcase]
LONG, LETTERS = "sk-Proj-0123456789abcdEFGH", "Plaintex"


@pytest.mark.parametrize("secret", [LONG, LETTERS])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_secret_is_hidden_in_every_encoding_and_case(encoding: str, secret: str) -> None:
    remember(secret)
    for inner in CASES:
        for outer in CASES:
            assert hide(f"before {outer(ENCODINGS[encoding](inner(secret)))} after") == "before *** after"


@pytest.mark.parametrize("case", CASES)
def test_a_secret_is_hidden_in_another_case(case: Callable[[str], str]) -> None:
    remember(LONG)
    assert hide(f"key {case(LONG)}.") == "key ***."


@pytest.mark.parametrize("space", [" ", "\n", "  \t"])
@pytest.mark.parametrize("form", [str, ENCODINGS["hexadecimal"], lambda text: base64.b64encode(text.encode()).decode()])
def test_white_space_hides_no_long_secret(space: str, form: Callable[[str], str]) -> None:
    remember(LONG)
    shown = hide(f"before {space.join(form(LONG))} after")
    assert shown.startswith("before ***")
    assert len(shown) < 25


def test_ordinary_words_stay_with_a_key_of_few_letters() -> None:
    remember("carefree")
    words = "Take care: free text, CAREFREE days, care free, care-free. Magnesium, medication."
    assert hide(words) == words
    assert hide("the key carefree") == "the key ***"


@given(before=st.binary(max_size=7), after=st.binary(max_size=7), key=st.text(string.ascii_letters + "-_", min_size=8))
def test_a_secret_is_hidden_wherever_it_begins_in_base64(before: bytes, after: bytes, key: str) -> None:
    scrub._forms.clear()
    remember(key)
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        assert "***" in hide(encode(before + key.encode() + after).decode())


def test_placeholders_and_what_is_no_secret_stay() -> None:
    remember("none")
    remember("EMPTY")
    assert hide("none of this is EMPTY sk-abc") == "none of this is EMPTY sk-abc"


def test_a_message_is_one_line_without_secrets() -> None:
    remember("a-secret-0123456789")
    text = (
        "line\none\x1b[31m: a-secret-0123456789, sk-proj-other, Bearer xyz, http://u:pw@h/?api_key=k&x=1 " + "x" * 999
    )
    assert error_text(text).startswith("line one␛[31m: ***, ***, ***, http://***@h/?api_key=***&x=1 xxx")
    assert len(error_text(text)) == 500


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://h/v1?key=abc", "http://h/v1?key=***"),
        ("http://h/v1?a=1&x-api-token=abc#f", "http://h/v1?a=1&x-api-token=***#f"),
        ("http://h/v1?api-version=2024-10-21", "http://h/v1?api-version=2024-10-21"),
        ("http://u:p@ss@h/v1", "http://***@h/v1"),
    ],
)
def test_an_address_is_shown_without_what_grants_access(url: str, shown: str) -> None:
    assert without_password(url) == shown


def test_control_characters_are_shown_as_symbols() -> None:
    assert printable("a\x1b[2J\x07\r\x00\x7f\x9b\u202e\ud800b\tc\nd") == "a␛[2J␇␍␀␡\ufffd\ufffd\ufffdb\tc\nd"


@given(st.text())
def test_anything_is_printable(text: str) -> None:
    shown = printable(text)
    shown.encode()
    assert all(character in "\t\n" or ord(character) >= 0x20 for character in shown)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("deepseek/deepseek-r1:free", "deepseek--deepseek-r1-free"),
        ("qwen3:8b", "qwen3-8b"),
        ("a\x1b[31m\nb", "a_[31m_b"),
        ("../../etc", "_..--..--etc"),
        ("..", "_.."),
        ("", "_"),
        ("x" * 500, "x" * 120),
    ],
)
def test_a_name_for_a_folder(name: str, expected: str) -> None:
    assert safe_name(name) == expected


def test_variables_whose_names_say_so_are_secrets() -> None:
    remember_environment({"MY_API_KEY": " abcdefgh12345 ", "HOME": "/home/somebody", "DB_PASSWORD": "short"})
    assert hide("abcdefgh12345 in /home/somebody, short") == "*** in /home/somebody, short"
