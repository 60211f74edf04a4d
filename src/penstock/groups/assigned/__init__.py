"""What groups have in common whose coordinator assigns: consumer groups and share groups."""
