"""The HTML report: one file that shows a run with its items, or compares several runs.

A benchmark says what is shown, as blocks (`blocks`); `document` puts runs and their comparison together, `pack`
compresses that in parts, `render` writes the page. The scripts beside this file draw the blocks in the browser; they
make every text a text node, so that nothing a model wrote can be markup.
"""
