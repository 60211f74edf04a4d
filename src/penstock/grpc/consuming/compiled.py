"""What each message to a consumer, and each that it acknowledges, goes through: compiled if built.

Source: ours, docs/adr/0021, 0194.
"""

try:
    from penstock.grpc.consuming._delivered import usual_messages
except ImportError:  # no C compiler at installation
    from penstock.grpc.consuming.usual import usual_messages
try:
    from penstock.grpc.consuming._acks import read_acks
except ImportError:
    from penstock.grpc.consuming.usual import read_acks

__all__ = ["read_acks", "usual_messages"]
