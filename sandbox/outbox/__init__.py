"""An outbox for text messages and a book of notes: what goes out to a customer, and what is remembered about them."""
