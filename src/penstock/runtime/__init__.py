"""Impure drivers behind the ports of base: clock, scheduler, disk, worker threads, supervision."""
