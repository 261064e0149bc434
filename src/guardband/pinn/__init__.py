"""How it is learnt: networks, their derivatives, the likelihood that is the loss, and the training loop."""
