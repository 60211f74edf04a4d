"""The append path of a produced batch: checks, preparation, append."""
