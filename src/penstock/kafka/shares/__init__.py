"""Share groups on the broker that leads the data: sessions, hand-outs, acknowledgements."""
