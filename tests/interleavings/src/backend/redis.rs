//! Redis' parts that need no driver.

#[path = "../../../../src/backend/redis/channels.rs"]
pub(crate) mod channels;
#[path = "../../../../src/backend/redis/clock.rs"]
pub(crate) mod clock;
#[path = "../../../../src/backend/redis/owner.rs"]
pub(crate) mod owner;
#[path = "../scenarios/redis.rs"]
pub mod scenarios;
