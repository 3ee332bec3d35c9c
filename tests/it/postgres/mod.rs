//! PostgreSQL passes every case, and some of its own. Needs the server of `docker/up`.

mod clock;
mod secured;
mod settings;
mod tables;
mod transactions;

use crate::common::{cases_for, conformance, network_conformance, postgres::Postgres};

#[cfg(feature = "blocking")]
crate::common::blocking!(Postgres);
conformance!(Postgres);
network_conformance!(Postgres);

mod waiting {
    use super::*;

    cases_for! { Postgres, alone, waiting::who_waits_behind_the_living_asks_for_nothing }
}
