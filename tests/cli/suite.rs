//! The command `distlock`, on the servers that `docker/up` starts: each option, each exit code, and
//! that its command is dead before the next one begins.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // a test fails by panicking

mod cron;
mod databases;
mod faults;
mod inspect;
mod probe;
mod run;
mod store;
mod url;
