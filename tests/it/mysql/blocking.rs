//! The same for threads.

use crate::common::{beside_others, blocking, mysql::Mysql};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn threads_take_turns() {
    beside_others::<Mysql>(blocking::threads_take_turns).await;
}
