//! What is told to recorders of metrics and to subscribers of traces: each grant, each loss and
//! each release once, whatever happens.

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
