"""Posts a reply whose words a person has agreed to."""
