"""Lists the customer's orders."""
