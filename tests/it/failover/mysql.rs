//! MariaDB with a replica.

use crate::{
    common::{
        SOON, eventually,
        mysql::{DATABASE, IMAGE, Mysql, PROGRAM},
        own::Server,
    },
    failover::{
        pair::{Pair, Replication},
        promotion::promotion,
    },
};

struct Replicated;

promotion!(Replicated);

/// Returns the output of an operator's statement.
pub(crate) async fn ask(server: &Server, statement: &str) -> String {
    server.own.run(&[&PROGRAM[..], &[statement]].concat()).await
}

/// Waits until the replica has all writes of the primary.
async fn caught_up(pair: &Pair) {
    let written = ask(&pair.primary, "SELECT @@gtid_binlog_pos").await;
    let wait = format!("SELECT MASTER_GTID_WAIT('{written}', {})", SOON.as_secs());
    assert_eq!(ask(&pair.standby, &wait).await, "0", "the replica has caught up");
}

impl Replication for Replicated {
    const STANDBY: &str = "read_only";

    async fn primary_alone() -> Server {
        Server::beside::<Mysql>(IMAGE, &[DATABASE], &["--server-id=1", "--log-bin=log"]).await
    }

    async fn asynchronous() -> Pair {
        let primary = Self::primary_alone().await;
        let arguments = ["--server-id=2", "--log-bin=log", "--read-only=1"];
        let replica = Server::start(IMAGE, &[DATABASE], &arguments).await;
        eventually(SOON * 5, "the replica accepts readers", async || {
            let listens = "exec 3<>/dev/tcp/127.0.0.1/3306 && echo ready || true";
            replica.own.run(&["bash", "-c", listens]).await == "ready"
        })
        .await;
        let follow = format!(
            "CHANGE MASTER TO master_host = '{}', master_user = 'root', \
             master_password = 'root', master_use_gtid = slave_pos, master_ssl = 0; START SLAVE",
            primary.own.ip().await
        );
        ask(&replica, &follow).await;
        let pair = Pair { primary, standby: replica };
        caught_up(&pair).await;
        pair
    }

    async fn part(pair: &Pair) {
        caught_up(pair).await;
        ask(&pair.standby, "STOP SLAVE").await;
    }

    async fn promote(pair: &Pair) {
        ask(&pair.standby, "STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only = 0").await;
    }
}
