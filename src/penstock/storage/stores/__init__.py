"""A partition as a sequence over stores: what consumers see, the port, what joins the stores."""
