"""Has a person agree to the words of a reply, and keeps them on the ticket."""
