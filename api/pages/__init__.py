"""The web form for people: one module and one template a page, listed in `router.py`."""
