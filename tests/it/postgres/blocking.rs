//! The same for threads.

use crate::common::{beside_others, blocking, postgres::Postgres};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn threads_take_turns() {
    beside_others::<Postgres>(blocking::threads_take_turns).await;
}
