//! PostgreSQL's parts that need no driver.

#[path = "../../../../src/backend/postgres/in_rows.rs"]
pub(crate) mod in_rows;
#[path = "../../../../src/backend/postgres/leaving.rs"]
pub(crate) mod leaving;
#[path = "../../../../src/backend/postgres/listening.rs"]
pub(crate) mod listening;
#[path = "../../../../src/backend/postgres/log.rs"]
pub(crate) mod log;
#[path = "../../../../src/backend/postgres/quiet_queues.rs"]
pub(crate) mod quiet_queues;
#[path = "../scenarios/postgres.rs"]
pub mod scenarios;
#[path = "../../../../src/backend/postgres/turns.rs"]
pub(crate) mod turns;
