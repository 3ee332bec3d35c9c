//! PostgreSQL in the process of the tests passes every case, with the library's own functions and
//! triggers, without a server. It has one open transaction at a time: what two of them do to each
//! other is tested on a real server (`postgres/overlaps.rs`).

use crate::common::{conformance, network_conformance, postgres::Embedded};

mod clock;
mod own;
mod place;

macro_rules! tests_of_postgres {
    ($($name:ident $path:literal),* $(,)?) => { $(
        #[expect(clippy::duplicate_mod, reason = "each module has its own server")]
        #[path = $path]
        mod $name;
    )* };
}
tests_of_postgres! {
    crash "postgres/crash.rs",
    listening "postgres/listening.rs",
    migration "postgres/migration.rs",
    observed "postgres/observed.rs",
    pool "postgres/pool/mod.rs",
    pooled "postgres/pooled.rs",
    settings "postgres/settings.rs",
    tables "postgres/tables.rs",
    tidying "postgres/tidying.rs",
}

conformance!(Embedded);
network_conformance!(Embedded);
