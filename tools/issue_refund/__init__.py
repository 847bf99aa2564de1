"""Refunds money of an order to the payment it was made with."""
