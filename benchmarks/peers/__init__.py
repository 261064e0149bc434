"""Other engines on the problems of the catalogue, each in a separate process."""
