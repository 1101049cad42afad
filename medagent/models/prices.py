"""What a call costs in US dollars, by the user's own table, otherwise by the prices in the package `genai-prices`.

The user's table is the file in `MEDAGENT_PRICES`, otherwise `prices.toml` in the config folder. `run.json` records the
version of `genai-prices`. Prices are never fetched. The price of a model that neither knows is None, never 0.
"""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from medagent.core.errors import UserError
from medagent.core.paths import config_dir
from medagent.models.base import Usage
from refsol.schema import fault_text

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo

SNAPSHOT = re.compile(r"-\d{4}-?\d{2}-?\d{2}$")
Dollars = Annotated[Decimal, Field(ge=0, allow_inf_nan=False)]
"""US dollars per million tokens."""


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a model's calls, and where it is from."""

    model: ModelInfo
    source: str

    def cost(self, usage: Usage) -> float:
        """The cost of `usage` in US dollars. Reasoning tokens cost as much as other output."""
        from genai_prices import Usage as Tokens

        cached = min(usage.cached, usage.prompt)
        tokens = Tokens(
            input_tokens=usage.prompt,
            cache_read_tokens=cached,
            cache_write_tokens=min(usage.cache_written, usage.prompt - cached),
            output_tokens=usage.output,
        )
        return float(self.model.get_prices(datetime.now(UTC)).calc_price(tokens)["total_price"])

    def __str__(self) -> str:
        return f"{self.model.get_prices(datetime.now(UTC))} ({self.source})"


class PriceRow(BaseModel):
    """A model's prices in the user's table."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    input: Dollars
    """Prompt tokens."""
    cached_input: Dollars | None = None
    """Prompt tokens read from the provider's cache; None: same as `input`."""
    cache_write: Dollars | None = None
    """Prompt tokens written to the provider's cache; None: same as `input`."""
    output: Dollars
    """Completion tokens."""


class PriceTable(BaseModel):
    """The user's table."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    date: str = ""
    """The month of the prices, for the reader."""
    models: dict[str, PriceRow]
    """Prices by model name."""


def find_price(model: str, base_url: str = "") -> Price | None:
    """The price of a model, or None: the price of the provider at `base_url`, otherwise of the provider to which the
    model's name belongs. A dated snapshot gets its model's price unless its own is listed.

    Raises UserError if the user's table cannot be read.
    """
    from genai_prices import Usage as Tokens
    from genai_prices import __version__, calc_price

    if (price := _own_price(model)) is not None:
        return price
    for address in (base_url, None):
        try:
            published = calc_price(Tokens(), model, provider_api_url=address)
        except LookupError:
            continue
        if published.model_price.input_mtok is not None:  # otherwise not paid by the token
            source = f"{published.model.id} of {published.provider.id} in genai-prices {__version__}"
            return Price(published.model, source)
    return None


def _own_price(model: str) -> Price | None:
    from genai_prices.types import ClauseEquals, ModelInfo, ModelPrice

    file = own_table()
    if not (os.environ.get("MEDAGENT_PRICES") or file.exists()):
        return None
    table = _read(file)
    for name in (model, SNAPSHOT.sub("", model)):
        if (row := table.models.get(name)) is not None:
            prices = ModelPrice(
                input_mtok=row.input,
                cache_read_mtok=row.cached_input,
                cache_write_mtok=row.cache_write,
                output_mtok=row.output,
            )
            info = ModelInfo(id=name, match=ClauseEquals(name), prices=prices)
            return Price(info, f"{name} in {file}, of {table.date or 'no date'}")
    return None


def own_table() -> Path:
    """The path of the user's table, which need not exist."""
    path = os.environ.get("MEDAGENT_PRICES")
    return Path(path).expanduser() if path else config_dir() / "prices.toml"


def _read(path: Path) -> PriceTable:
    try:
        return PriceTable.model_validate(tomllib.loads(path.read_text(encoding="utf-8"), parse_float=Decimal))
    except OSError as error:
        raise UserError(f"{path}: the price table cannot be read: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors()[0]
        raise UserError(f"{path}: {'.'.join(str(part) for part in first['loc'])}: {fault_text(first)}") from None
    except ValueError as error:
        raise UserError(f"{path}: not TOML in UTF-8: {error}") from None
