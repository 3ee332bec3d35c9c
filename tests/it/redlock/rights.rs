//! Users that lack a right on some of the nodes.

use distlock::Error;
use redis::cmd;

use super::nodes::Nodes;
use crate::common::{
    SOON, locked, reason,
    redlock::{ask, dial},
    refused, within,
};

/// Changes the rights of the clients' user on these nodes.
async fn change(nodes: &Nodes, which: &[usize], rule: &str) {
    for node in which {
        let operator = dial(nodes.addresses[*node]).await;
        let _: String = ask(&operator, cmd("ACL").arg("SETUSER").arg("app").arg(rule)).await;
    }
}

/// The first right is missing where the node reads the request, and the second within a script.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_majority_of_nodes_denies_a_lock() {
    let nodes = Nodes::start().await;
    for right in ["evalsha", "set"] {
        let client = nodes.client().await;
        change(&nodes, &[0, 1], &format!("-{right}")).await;
        locked(&client, "a").await.unlock().await.expect("released");
        change(&nodes, &[2], &format!("-{right}")).await;
        let mutex = client.mutex("a");
        for error in [
            within(SOON, "the call fails", mutex.lock()).await.map(drop).expect_err("denied"),
            within(SOON, "the call fails", mutex.try_lock()).await.map(drop).expect_err("denied"),
        ] {
            assert!(matches!(error, Error::Denied { .. }) && !error.is_retryable(), "{error:?}");
            assert!(reason(&error).contains(&format!("'{right}'")), "{error:?}");
        }
        if right == "evalsha" {
            let error = refused(nodes.builder()).await;
            assert!(matches!(error, Error::Denied { .. }), "{error:?}");
        }
        change(&nodes, &[0, 1, 2], &format!("+{right}")).await;
        locked(&client, "a").await.unlock().await.expect("released");
        client.close().await.expect("closed");
    }
}
