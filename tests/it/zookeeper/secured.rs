//! Users, passwords and certificates.

use distlock::Error;
use distlock_testkit::backend::Backend;

use crate::common::{
    SOON,
    cases::secured::{has_no_secret, nobody, with_users},
    cases_of, close, connected,
    secrets::Shown,
    take_turn, within,
    zookeeper::ZooKeeper,
};

cases_of! { ZooKeeper, Backend::ZooKeeper,
    secured::valid_certificates_are_accepted,
    secured::wrong_certificates_are_refused,
    secured::garbled_certificates_are_refused_by_name,
}

/// ZooKeeper accepts any user; only the creator of the nodes has rights to them.
#[tokio::test]
async fn locks_belong_to_the_user_that_created_them() {
    let builder = with_users(Backend::ZooKeeper).await;
    let client = connected(builder.clone().credentials("app", "apppw")).await;
    let guard = client.mutex("a").lock().await.unwrap();
    let colleague = connected(builder.clone().credentials("app", "apppw")).await;
    assert!(colleague.mutex("a").try_lock().await.unwrap().is_none());
    let strangers = [
        builder.clone().credentials("app", "wrong"),
        builder.clone().credentials("other", "apppw"),
        builder,
    ];
    for stranger in strangers {
        let stranger = connected(stranger).await;
        for outcome in [
            within(SOON, "the lock is refused", stranger.mutex("a").lock()).await.map(Some),
            within(SOON, "the attempt is refused", stranger.mutex("a").try_lock()).await,
            within(SOON, "the lock is refused", stranger.mutex("new").lock()).await.map(Some),
        ] {
            let error = outcome.unwrap_err();
            assert!(matches!(error, Error::Denied { .. }), "{error:?}");
            assert!(!error.is_retryable());
        }
        close([stranger]).await;
    }
    assert!(guard.is_valid());
    guard.unlock().await.unwrap();
    take_turn(&colleague, "a").await;
    close([client, colleague]).await;
}

/// The output is checked for clients that connect, are refused, or find no server.
#[tokio::test]
async fn output_contains_no_secret() {
    let mut shown = Shown::default();
    let users = with_users(Backend::ZooKeeper).await;
    for builder in [users.clone(), nobody(Backend::ZooKeeper)] {
        shown.builder(&builder.credentials("app", "apppw")).await;
    }
    let stranger = connected(users.credentials("app", "wrong-s3cret")).await;
    shown.error("Denied", &stranger.mutex("secrets").lock().await.unwrap_err());
    shown.debug("Client", &stranger);
    has_no_secret(Backend::ZooKeeper, shown).await;
}
