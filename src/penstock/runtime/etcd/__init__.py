"""Metadata in an existing etcd: an implementation of the consensus port (docs/adr/0011)."""

from penstock.runtime.etcd.config import EtcdConfig
from penstock.runtime.etcd.local_copy import LocalFiles
from penstock.runtime.etcd.log import EtcdLog, EtcdPeer

__all__ = ["EtcdConfig", "EtcdLog", "EtcdPeer", "LocalFiles"]
