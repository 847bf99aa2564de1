"""Webhooks of the gateway, as Stripe sends them (https://docs.stripe.com/webhooks): signed, repeated, in any order."""
