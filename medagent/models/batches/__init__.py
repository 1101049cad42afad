"""A model behind a provider's batch API: `model.py` is the chat model, `apis.py` what providers offer, `intents.py` the
file that says what was submitted, `sender.py` the requests to the API.
"""
