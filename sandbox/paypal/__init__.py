"""A simulated PayPal: OAuth tokens, Payments v2, Orders v2, disputes and signed webhooks, as PayPal documents them.

It has a state of its own and shares the fault script and the hostile answers with the rest of the sandbox.
"""
