"""Tells where the parcels of an order are."""
