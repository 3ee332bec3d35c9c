//! etcd passes every case, and some of its own. The tests need the servers of `docker/up`.

mod alike;
pub(crate) mod answers;
mod etcdctl;
pub(crate) mod foreign;
pub(crate) mod full;
pub(crate) mod hung;
mod members;
pub(crate) mod proxied;
pub(crate) mod release_markers;
mod secured;
pub(crate) mod turns;

use crate::common::{cases_for, conformance, etcd::Etcd, network_conformance};

#[cfg(feature = "blocking")]
crate::common::blocking!(Etcd);
conformance!(Etcd);
network_conformance!(Etcd);

mod costs {
    use super::*;

    cases_for! { Etcd, alone, costs::handover_within_one_client_sends_no_extra_read }
}
