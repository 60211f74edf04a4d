"""The nodes as the HTTP front reaches them: an asynchronous client of the remoting protocol."""
