"""Coordinators on this broker: their internal topics, and the masterships that they follow."""
