//! Recorders of metrics and subscribers of traces receive each grant, each loss and each release
//! exactly once.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // a test fails by panicking

#[path = "telemetry/dashboard.rs"]
mod dashboard;
#[path = "telemetry/listener.rs"]
mod listener;
#[path = "telemetry/reentrant.rs"]
mod reentrant;
#[path = "telemetry/sessions.rs"]
mod sessions;
#[path = "telemetry/situations.rs"]
mod situations;
