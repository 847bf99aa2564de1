"""The simulated outside world: an order store and a hostile, Stripe-shaped payment gateway.

It stands for code that nobody of ours wrote: it imports nothing from the other packages, nor they from it.
"""
