"""The coordinators of a node, each with what asks and answers for it."""
