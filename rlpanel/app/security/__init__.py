"""Security: decides who may open which address, before a request reaches the board."""
