"""What clients ask for over HTTP, one module for each kind."""
