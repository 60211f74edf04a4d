"""The files of a log as an operator sees them: dumped, verified, and what keeps each of them."""
