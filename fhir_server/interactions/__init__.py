"""What a client may ask for, a module for each kind; `route` decides which it is."""
