"""The HTML report: one file that shows a run and each of its items, or several runs side by side.

A benchmark defines what is shown, as blocks (`blocks`). `render` combines runs and their comparison, and writes the
page. The scripts in this folder draw the blocks in the browser. They make every text a text node, so a text of a model
is never markup.
"""
