"""What a start would make of a disk at this very moment: tried on copies."""
