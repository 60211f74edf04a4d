"""What one accepted record of a share goes through, compiled and interpreted."""
