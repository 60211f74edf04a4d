"""Coordinators on this broker: their internal topics, and the masterships they follow."""
