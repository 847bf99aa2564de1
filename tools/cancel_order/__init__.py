"""Cancels an order that was not shipped yet."""
