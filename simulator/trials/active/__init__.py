"""Random walks of an active controller on a copy: whom it fences, elects, moves and releases."""
