//! MySQL with a pool of sqlx passes every case; `mysql/pool/` has some of its own. The tests need
//! the server of `docker/up mysql`.

use crate::common::{conformance, mysql::SqlxPool, network_conformance};

conformance!(SqlxPool);
network_conformance!(SqlxPool);
