"""Sends an order that was not shipped yet to another address."""
