"""Tools without code: what they exchange with a remote system stands in `http.yaml`."""
