//! Nobody listens: all of this is of size zero, and does nothing.

use std::time::Duration;

use super::{Ended, Label, Opened, Primitive};
use crate::{error::Result, lost::LostReason};

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Telemetry {}

impl Telemetry {
    pub(crate) fn new(_: &'static str, _: Option<Label>) -> Self {
        Self {}
    }

    pub(crate) fn asked(&self, _: &'static str) -> Asked {
        Asked {}
    }

    pub(crate) fn releasing(&self) -> Releasing {
        Releasing {}
    }

    pub(crate) fn renewals(&self) -> Renewals {
        Renewals {}
    }

    pub(crate) fn opened(&self, _: Opened) {}

    pub(crate) fn recheck_found(&self, _: &'static str) {}

    pub(crate) fn write_rejected(&self, _: LostReason) {}
}

#[cfg(feature = "redis")]
pub(crate) fn not_exclusive(_: &'static str, _: &[String]) {}

#[derive(Debug)]
pub(crate) struct Call<'a>(std::marker::PhantomData<&'a str>);

impl<'a> Call<'a> {
    pub(crate) fn new(_: Telemetry, _: Primitive, _: &'a str, _: bool) -> Self {
        Self(std::marker::PhantomData)
    }

    pub(crate) fn within<F: Future + Unpin>(&self, future: F) -> F {
        future
    }

    pub(crate) fn granted(self, _: u64, _: &Accounts, _: &Slot) -> Account {
        Account {}
    }

    pub(crate) fn returned<T>(self, _: &Result<Option<T>>) {}

    pub(crate) fn placed(_: usize) {}

    pub(crate) fn forget(self) {}
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Accounts {}

impl Accounts {
    pub(crate) fn lose(&self, _: LostReason) {}
}

#[derive(Debug, Default)]
pub(crate) struct Slot {}

impl Slot {
    pub(crate) fn put(&self, _: &Account) {}

    pub(crate) fn lose(&self, _: LostReason) {}
}

#[derive(Debug, Default)]
pub(crate) struct Account {}

impl Account {
    pub(crate) fn handle(&self) -> Handle {
        Handle {}
    }

    pub(crate) fn relabelled(&self, _: Primitive) {}

    pub(crate) fn lose(&self, _: impl FnOnce() -> Option<LostReason>) {}

    pub(crate) fn let_go(&self) {}

    pub(crate) fn ended(self, _: Ended) {}
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Handle {}

impl Handle {
    pub(crate) fn unconfirmed(&self, _: Option<Duration>, _: impl FnOnce() -> String) {}
}

#[derive(Debug)]
pub(crate) struct Asked {}

impl Asked {
    pub(crate) fn answered(self, _: &'static str) {}
}

#[derive(Debug)]
pub(crate) struct Releasing {}

impl Releasing {
    pub(crate) fn done(self) {}
}

#[derive(Debug)]
pub(crate) struct Renewals {}

impl Renewals {
    pub(crate) fn remaining(&self, _: impl FnOnce() -> Option<Duration>) {}
}

#[derive(Debug, Default)]
pub(crate) struct SlowWaits {}

impl SlowWaits {
    pub(crate) fn may_look(&self) -> bool {
        false
    }

    pub(crate) fn slow(&self, _: &str, _: Duration, _: Option<usize>, _: &str, _: u64) {}
}
