"""The store: SQLite files with resources, their versions and their index rows, and temporary overlays over them."""

from fhir_server.store._base import BaseStore
from fhir_server.store.overlay import OverlayStore
from fhir_server.store.store import Store, Version

__all__ = ["BaseStore", "OverlayStore", "Store", "Version"]
