//! Redlock's parts that need no driver.

#[path = "../../../../src/backend/redlock/contended.rs"]
pub(crate) mod contended;
#[path = "../../../../src/backend/redlock/keys.rs"]
pub(crate) mod keys;
#[path = "../scenarios/redlock.rs"]
pub mod scenarios;
#[path = "../../../../src/backend/redlock/strays.rs"]
pub(crate) mod strays;
