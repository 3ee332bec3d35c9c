//! Sessions with more locks than a store removes within one request timeout.

use std::time::Duration;

use crate::common::{
    Waiter, clients::connect, close, database::Tables, eventually, locked, release, take_turn,
};

/// The time limit for removing all of them.
const LONG: Duration = Duration::from_secs(120);

/// A waiter is granted one of the locks soon. The store removes the others without ending another
/// session or delaying its calls for long.
async fn are_free(database: &impl Tables, session: &str) {
    let ttl = Duration::from_secs(3);
    let [waiting, working] =
        [connect(database.url(), ttl).await, connect(database.url(), ttl).await];
    let guard = locked(&working, "held").await;
    // A lock that is alone in its queue, and one that is not.
    let locks = database.dialect().crowd;
    for name in [locks / 2, locks] {
        let granted = Waiter::of(&waiting, &format!("crowd-{name}")).granted().await;
        take_turn(&working, "a").await;
        release([granted]).await;
    }
    let rows = (database.dialect().of_session)(session);
    eventually(LONG, "all are removed", async || {
        take_turn(&working, "a").await;
        database.ask(&rows).await.is_empty()
    })
    .await;
    assert!(guard.is_valid(), "the session was renewed");
    release([guard]).await;
    close([waiting, working]).await;
}

pub(crate) async fn locks_of_a_dead_client_are_free_however_many(database: &impl Tables) {
    // The first client creates the tables.
    close([database.client().await]).await;
    let dialect = database.dialect();
    database.ask(&(dialect.dead)()).await;
    database.ask(&(dialect.hold)("7", dialect.crowd)).await;
    let client = connect(database.url(), Duration::from_secs(3)).await;
    take_turn(&client, "a").await;
    let left = database.ask(&(dialect.of_session)("7")).await.len();
    assert_ne!(left, 0, "one request removed all locks");
    close([client]).await;
    are_free(database, "7").await;
}

/// The locks are free before the TTL has expired.
pub(crate) async fn locks_of_a_closed_client_are_free_however_many(database: &impl Tables) {
    let client = connect(database.url(), Duration::from_secs(3600)).await;
    let dialect = database.dialect();
    let session = database.ask(&format!("SELECT id FROM {}sessions", dialect.prefix)).await;
    database.ask(&(dialect.hold)(&session[0], dialect.crowd)).await;
    close([client]).await;
    are_free(database, &session[0]).await;
}
