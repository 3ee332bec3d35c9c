//! What those who wait ask the server for.

use std::time::Duration;

use tokio::time::sleep;

use crate::common::{Case, alone, cases::costs::settled, postgres::Postgres};

const TTL: Duration = Duration::from_secs(2);

/// Renewals tell how long the session ahead will live, and the server tells of the rest. What is
/// left is the look of the `recheck_interval`, which does not come here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_behind_the_living_asks_for_nothing() {
    alone::<Postgres>(async |t: &Case| {
        let builder = || t.builder().session_ttl(TTL).recheck_interval(Duration::from_secs(60));
        let [holding, waiting] = [t.connect(builder()).await, t.connect(builder()).await];
        let guard = holding.mutex("silent").lock().await.expect("granted");
        let waiter = t.enqueue(&waiting, "silent").await;
        let session = [t.store.session_of(guard.key()).await];
        settled(t, &session).await;
        let before = t.cost(&session).await;
        sleep(TTL * 4).await;
        let spent = t.cost(&session).await - before;
        assert!(spent.keepalives >= 16, "{spent:?}: two sessions were to be renewed");
        assert_eq!((spent.requests, spent.events), (0, 0), "{spent:?}");
        guard.unlock().await.expect("released");
        waiter.granted().await.unlock().await.expect("released");
    })
    .await;
}
