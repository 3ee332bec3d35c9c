//! The same for threads.

use crate::common::{beside_others, blocking, sqlite::Sqlite};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn threads_take_turns() {
    beside_others::<Sqlite>(blocking::threads_take_turns).await;
}
