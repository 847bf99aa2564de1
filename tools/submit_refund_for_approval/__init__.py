"""Has people decide about a drafted refund, and makes it once they agreed."""
