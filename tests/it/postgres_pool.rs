//! PostgreSQL with a pool of sqlx passes every case; `postgres/pool/` has some of its own. The
//! tests need the server of `docker/up postgres`.

use crate::common::{conformance, network_conformance, postgres::SqlxPool};

conformance!(SqlxPool);
network_conformance!(SqlxPool);
