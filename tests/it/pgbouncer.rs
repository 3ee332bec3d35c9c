//! PostgreSQL behind pgbouncer in transaction mode passes every case. The tests need the servers of
//! `docker/up pgbouncer`.

use crate::common::{conformance, network_conformance, postgres::Pgbouncer};

conformance!(Pgbouncer);
network_conformance!(Pgbouncer);
