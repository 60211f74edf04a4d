"""Reassignments: replica sets that are to have other members (KIP-455, ADR 0129)."""
