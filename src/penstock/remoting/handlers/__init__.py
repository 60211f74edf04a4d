"""What is done for the requests of remoting clients, a module for requests of a kind."""
