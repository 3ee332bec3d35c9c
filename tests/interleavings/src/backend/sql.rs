//! The parts of the SQL stores and of Redis that need no driver.

#[path = "../../../../src/backend/sql/asking.rs"]
pub(crate) mod asking;
#[path = "../../../../src/backend/sql/clock_readings.rs"]
pub(crate) mod clock_readings;
#[path = "../../../../src/backend/sql/connection_handle.rs"]
pub(crate) mod connection_handle;
#[path = "../../../../src/backend/sql/endpoints.rs"]
pub(crate) mod endpoints;
#[path = "../../../../src/backend/sql/key.rs"]
pub(crate) mod key;
#[path = "../../../../src/backend/sql/lending.rs"]
pub(crate) mod lending;
#[path = "../../../../src/backend/sql/noted_queues.rs"]
pub(crate) mod noted_queues;
#[path = "../../../../src/backend/sql/outcome.rs"]
pub(crate) mod outcome;
#[path = "../../../../src/backend/sql/released.rs"]
pub(crate) mod released;
#[path = "../../../../src/backend/sql/server_clock.rs"]
pub(crate) mod server_clock;
#[path = "../../../../src/backend/sql/watched.rs"]
pub(crate) mod watched;
#[path = "../../../../src/backend/sql/watches.rs"]
pub(crate) mod watches;
