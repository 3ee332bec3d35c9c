//! Pools that lead to another server or database, or whose connection is in a transaction.

use std::time::Instant;

use distlock::Error;

use super::{
    place,
    pool::{
        REQUEST, client_of,
        exhausted::{PROMPT, lent_none},
        pool_of,
    },
};
use crate::common::{chain, company, connected, locked, refused, take_turn, within};

/// The pool connects to another database of the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pool_that_leads_elsewhere_is_refused() {
    let _company = company().await;
    drop(place::by_pool().await);
    let (before, after) = (place::url(), "/distlock");
    let elsewhere = before.strip_suffix(after).expect("the database").to_owned() + "/postgres";
    let error = refused(client_of(&pool_of(&elsewhere, 1))).await;
    assert!(matches!(error, Error::Denied { .. }), "{error:?}");
    assert!(chain(&error).contains("is not connected to the database"), "{error:?}");
    // The server refuses this pool's password.
    let wrong = place::url().replace("apppw", "s3cret");
    let error = refused(client_of(&pool_of(&wrong, 1))).await;
    assert!(matches!(error, Error::Denied { .. }), "{error:?}");
    assert!(!format!("{error:?} {}", chain(&error)).contains("s3cret"), "{error:?}");
}

/// The call cannot be served before the transaction ends, which waits for the call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_inside_a_transaction_on_the_only_connection_fails() {
    let _company = company().await;
    let pool = pool_of(&place::url(), 1);
    let client = connected(client_of(&pool)).await;
    let held = locked(&client, "held").await;
    let transaction = pool.begin().await.expect("begun");
    let began = Instant::now();
    lent_none(within(PROMPT, "lock() returns", client.mutex("a").lock()).await);
    lent_none(within(PROMPT, "try_lock() returns", client.mutex("a").try_lock()).await);
    println!("both failed after {:?}", began.elapsed());
    let mutex = client.mutex("a");
    let timed = within(PROMPT, "lock_timeout() returns", mutex.lock_timeout(REQUEST / 4)).await;
    assert!(timed.expect("time is up").is_none());
    assert!(held.is_valid());
    transaction.rollback().await.expect("rolled back");
    take_turn(&client, "a").await;
    held.unlock().await.expect("released");
    client.close().await.expect("closed");
}
