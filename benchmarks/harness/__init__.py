"""What every measurement needs: a node to measure, a machine to describe, disks to break."""
