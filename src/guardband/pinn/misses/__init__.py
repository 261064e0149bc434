"""How far a network misses data, equation and conditions: points, scales, the loss and its Jacobian."""
