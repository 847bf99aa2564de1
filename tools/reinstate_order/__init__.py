"""Takes a cancellation back."""
