"""Results for people: tables first, charts where a chart is clearer."""
