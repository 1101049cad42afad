"""Short facts with a judge: asks, has every answer judged, and keeps both; the figures are refsol's."""
