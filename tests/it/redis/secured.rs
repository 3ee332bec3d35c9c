//! Passwords and certificates.

use distlock::Client;
use distlock_testkit::servers::{redis_tls_url, redis_url};

use crate::common::{
    Harness,
    cases::encrypted::{is_denied, is_misconfigured},
    cases_of, close, connected,
    redis::Redis,
    release,
};

cases_of! { Redis, &redis_tls_url(),
    encrypted::a_lock_is_held_by_tls,
    encrypted::certificate_errors_name_the_cause,
    encrypted::certificates_are_checked_by_the_roots_of_the_system,
}

#[tokio::test]
async fn unverifiable_settings_are_refused_before_io() {
    is_misconfigured(Client::builder("rediss://192.0.2.1/0?ca_file=/nowhere/ca.pem"), "tls").await;
    for plain in ["redis://app:s3cret@192.0.2.1", "redis://:s3cret@192.0.2.1/1"] {
        is_misconfigured(Client::builder(plain), "credentials").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn denied_logins_are_reported_without_credentials() {
    drop(Redis::start().await);
    let without_login = redis_url().replace("app:apppw@", "");
    for builder in [
        Client::builder(redis_url()).credentials("app", "wrong-s3cret"),
        Client::builder(redis_url()).credentials("stranger", "wrong-s3cret"),
        Client::builder(without_login),
        // The server has 16 databases.
        Client::builder(format!("{}/99", redis_url())),
    ] {
        is_denied(builder).await;
    }
}

/// Databases are independent of each other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn databases_are_stores_of_their_own() {
    drop(Redis::start().await);
    let namespace = format!("/db-{:016x}", fastrand::u64(..));
    let (mut clients, mut guards) = (Vec::new(), Vec::new());
    for database in ["", "/1", "/15"] {
        let url = format!("{}{database}", redis_url());
        let client = connected(Client::builder(url).namespace(&namespace)).await;
        guards.push(client.mutex("a").try_lock().await.expect("a reply").expect("free"));
        clients.push(client);
    }
    release(guards).await;
    close(clients).await;
}
