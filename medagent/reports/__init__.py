"""Views of results for people: tables, and charts where a chart is clearer."""
