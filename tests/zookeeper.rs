//! ZooKeeper passes every case. Needs the servers of `docker/up`.
