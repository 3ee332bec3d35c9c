//! The common parts of PostgreSQL, MySQL and Redis. A session uses one server at a time and expires
//! by its clock, and replies consist of text rows.

pub(crate) mod asking;
pub(crate) mod clock_readings;
pub(crate) mod connection_handle;
pub(crate) mod dialect;
pub(crate) mod endpoints;
mod extras;
pub(crate) mod key;
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) mod lending;
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) mod noted_queues;
pub(crate) mod outcome;
#[cfg(any(feature = "postgres", feature = "redis"))]
pub(crate) mod registered;
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) mod released;
pub(crate) mod replies;
#[cfg(any(feature = "postgres", feature = "redis"))]
pub(crate) mod requested;
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) mod schema;
pub(crate) mod server_clock;
pub(crate) mod statements;
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) mod step;
pub(crate) mod store;
pub(crate) mod watched;
#[cfg(any(feature = "postgres", feature = "redis"))]
pub(crate) mod watches;
