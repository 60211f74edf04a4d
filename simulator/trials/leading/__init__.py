"""Random walks of a master on a copy: which messages it may rely on, what it may decide."""
