"""The store: SQLite files with resources, their versions and their index rows, and throw-away overlays over them."""

from fhir_server.store.base import BaseStore, Store, Version
from fhir_server.store.overlay import OverlayStore

__all__ = ["BaseStore", "OverlayStore", "Store", "Version"]
