"""Several nodes of one machine under one supervisor: `penstock serve`."""
