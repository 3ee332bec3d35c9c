//! PostgreSQL passes every case, and some of its own. The tests need the server of `docker/up`.

mod batches;
mod clock;
mod closing;
mod crash;
mod listening;
mod migration;
mod observed;
mod overlaps;
mod place;
mod pool;
mod pooled;
mod pools;
mod quarantine;
mod secured;
mod servers;
mod settings;
mod snapshots;
mod tables;
mod tidying;
mod transactions;
#[cfg(unix)]
mod urls;

use crate::common::{cases_for, conformance, network_conformance, postgres::Postgres};

#[cfg(feature = "blocking")]
crate::common::blocking!(Postgres);
conformance!(Postgres);
network_conformance!(Postgres);

mod waiting {
    use super::*;

    cases_for! { Postgres, alone,
        waiting::a_waiter_behind_a_live_session_sends_no_requests,
        costs::handover_within_one_client_sends_no_extra_read,
    }
}
