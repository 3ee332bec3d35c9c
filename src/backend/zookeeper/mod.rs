//! The adapter for ZooKeeper: ephemeral sequential nodes, laid out as Curator's `InterProcessMutex`
//! does, one session for many locks.
//!
//! Each queue has a directory, and each waiter a node in it: `{tag}-lock-{sequence}`, or
//! `{tag}-{label}-lock-{sequence}` where it says something of itself. Curator sorts by what follows
//! `lock-`, and so does this. The tag makes names unique for ever (`tags.rs`). An uncontended lock
//! is one request, and its release is another, however many locks there are: joining writes to the
//! directory in the transaction that creates the node, for the sake of the answer
//! (`store/join.rs`). So data that an operator puts on a lock's directory is lost with the next
//! lock, unless nobody else has the right to write to it: then each lock costs a list.
//!
//! It uses `zookeeper-client` for single requests only. The crate's own `lock` leaves nodes behind
//! when it is cancelled or a reply is lost, its persistent watches do not survive a reconnect, and
//! its `Expired` comes after the server has given the lock away: order, retries and deadlines are
//! distlock's own.

mod error;
mod identity;
mod names;
mod order;
mod renewal;
mod store;
mod tags;
mod tls;
mod wire;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use zookeeper_client as zk;

use self::{
    store::{KEY_BUDGET, WATCH_BUDGET, ZooKeeperStore},
    tags::Tags,
    tls::Tls,
    wire::inline,
};
use super::{Backend, Facts, Store};
use crate::{
    backend::{Result, StoreError, handshake, remote::Remote},
    error::Error,
    runtime::{
        clock::{self, timeout},
        process::FirstUse,
    },
    store_kind::StoreKind,
};

/// The crate's timers and sockets are those of async-io, which has one thread and one epoll set for
/// the process. A forked child would be without the thread, and in the set of its parent.
static CONNECTED: FirstUse = FirstUse::new();

/// How often a server hangs up on the same request before that is taken for its answer.
const HANG_UPS: u32 = 2;

type Connected = Result<zk::Client, zk::Error>;

/// The backend of `zk://host:port`.
#[derive(Debug)]
pub(crate) struct ZooKeeper {
    remote: Remote,
    tls: Option<Arc<Tls>>,
    /// For the nodes that are made.
    acls: Arc<[zk::Acl]>,
    /// What the servers granted when they last granted another session timeout than was asked for,
    /// in milliseconds; 0 if they never did.
    granted: AtomicU64,
    /// The servers were found to be new enough.
    proven: AtomicBool,
    tags: Arc<Tags>,
}

impl ZooKeeper {
    pub(crate) fn new(remote: Remote) -> Result<Self, Error> {
        Ok(Self {
            acls: acls(&remote),
            tls: Tls::new(&remote)?.map(Arc::new),
            remote,
            granted: AtomicU64::new(0),
            proven: AtomicBool::new(false),
            tags: Arc::default(),
        })
    }

    /// Opens a session, having tried each server once.
    async fn connect(&self, ttl: Duration) -> Result<zk::Client> {
        if !CONNECTED.is_ours() {
            let source = "the process was forked after it had connected to ZooKeeper, whose client \
                          does not work in the child: connect there only, or start another program";
            return Err(StoreError::Fatal { operation: "connect", source: source.into() });
        }
        let connector = zk::Client::connector()
            .with_session_timeout(ttl)
            .with_connection_timeout(self.patience(ttl))
            .with_fail_eagerly();
        let connected = match &self.remote.credentials {
            None => self.reach(connector).await,
            Some(credentials) => {
                let credentials = credentials.newest();
                let (user, password) = (&credentials.user, credentials.password.expose());
                match self.remote.sasl {
                    // Without the feature, the builder refuses it.
                    #[cfg(feature = "zookeeper-sasl")]
                    true => {
                        let sasl = zk::SaslOptions::digest_md5(user.clone(), password.clone());
                        self.insist(connector.with_sasl(sasl)).await
                    }
                    _ => self.identify(connector, &format!("{user}:{password}")).await,
                }
            }
        };
        match connected {
            Ok(client) => {
                self.tls.iter().for_each(|tls| tls.follow(client.state_watcher()));
                Ok(client)
            }
            Err(zk::Error::AuthFailed) => {
                let what = if self.remote.sasl { "user or password" } else { "credentials" };
                let servers = self.remote.endpoints.join(",");
                Err(StoreError::Denied(format!("{servers}: {what} refused").into()))
            }
            // Wrong before anything was sent.
            Err(error @ zk::Error::BadArguments(_)) => {
                Err(StoreError::Fatal { operation: "connect", source: error.into() })
            }
            // The crate keeps what each server said to itself.
            Err(zk::Error::NoHosts) => {
                let unknown = || self.no_session("refused, silent or without a quorum");
                Err(handshake::fault(&self.remote).await.unwrap_or_else(unknown))
            }
            Err(error) => Err(self.no_session(&error.to_string())),
        }
    }

    /// Connects as this user.
    ///
    /// Servers that run on Netty read on while they make a session, and so may answer credentials
    /// that come with the request for it first, which the crate takes for a broken server. So they
    /// come second, unless the server wants them at once (`zookeeper.enforce.auth.enabled`).
    async fn identify(&self, connector: zk::Connector, user: &str) -> Connected {
        match self.reach(connector.clone()).await {
            Err(zk::Error::AuthFailed) => {
                self.insist(connector.with_auth("digest", user.as_bytes())).await
            }
            connected => {
                let client = connected?;
                client.auth("digest", user.as_bytes()).await.map(|()| client)
            }
        }
    }

    /// Connects with credentials in the request, to servers that may answer them first: one in five
    /// attempts fails so, and at once.
    async fn insist(&self, connector: zk::Connector) -> Connected {
        for _ in 1..5 {
            let connected = self.reach(connector.clone()).await;
            if !matches!(connected, Err(zk::Error::NoHosts)) {
                return connected;
            }
        }
        self.reach(connector).await
    }

    async fn reach(&self, connector: zk::Connector) -> Connected {
        let servers = self.remote.endpoints.join(",");
        match &self.tls {
            Some(tls) => inline(connector.with_tls(tls.options()).secure_connect(&servers)).await,
            None => inline(connector.connect(&servers)).await,
        }
    }

    /// How long a server may be silent before the crate tries another: at connecting so short that
    /// one silent server leaves time for the next. It holds for the session's whole life, so it is
    /// kept in bounds.
    ///
    /// The crate pings when it has sent nothing for 3/8 of this time, rounded up to the next
    /// eighth. `renewed_for` relies on no more than T/4 here: with the crate's default, 2/5 of
    /// the session timeout T, pauses between requests would be too long for it. Much less would
    /// cost pings.
    fn patience(&self, ttl: Duration) -> Duration {
        (self.remote.connect_timeout * 3 / 4).clamp(ttl / 10, ttl / 4)
    }

    /// Makes sure that the server knows what distlock asks of it and 3.6 has brought: to list the
    /// session's own nodes, and several reads in one request. An older one hangs up on each such
    /// request, which would look like a network that fails. So it is asked once, while there is
    /// nothing to lose.
    async fn probe(&self, client: &zk::Client) -> Result<()> {
        if self.proven.load(Ordering::Relaxed) {
            return Ok(());
        }
        // A new session has none.
        let mut asked = client.list_ephemerals("/").await;
        let mut refusals = 0;
        while let Err(zk::Error::ConnectionLoss | zk::Error::Custom(_)) = asked {
            // By another connection, and this time in one flight with a request that any server
            // answers. One that answers that and hangs up on this, twice running, is too old.
            let (old, new) = (client.check_stat("/"), client.list_ephemerals("/"));
            let (old, new) = tokio::join!(old, new);
            refusals =
                if old.is_ok() && new == Err(zk::Error::ConnectionLoss) { refusals + 1 } else { 0 };
            asked = if refusals < HANG_UPS { new } else { Err(zk::Error::Unimplemented) };
        }
        match asked {
            Ok(_) => {
                self.proven.store(true, Ordering::Relaxed);
                Ok(())
            }
            Err(zk::Error::Unimplemented) => {
                let servers = self.remote.endpoints.join(", ");
                let source = format!(
                    "{servers}: hangs up on requests of ZooKeeper 3.6; 3.6 or later is needed"
                );
                Err(StoreError::Fatal { operation: "connect", source: source.into() })
            }
            Err(error) => Err(self.no_session(&error.to_string())),
        }
    }

    fn no_session(&self, reason: &str) -> StoreError {
        let tls = if self.tls.is_some() { ", or TLS failed" } else { "" };
        let servers = self.remote.endpoints.join(", ");
        StoreError::Unavailable(format!("no session from {servers}: {reason}{tls}").into())
    }
}

#[async_trait]
impl Backend for ZooKeeper {
    fn kind(&self) -> StoreKind {
        StoreKind::ZooKeeper
    }

    async fn open(&self, ttl: Duration) -> Result<(Facts, Arc<dyn Store>)> {
        let sent = clock::now();
        let open = async {
            let asked = match self.granted.load(Ordering::Relaxed) {
                0 => ttl,
                granted => Duration::from_millis(granted),
            };
            let mut client = self.connect(asked).await?;
            let granted = client.session_timeout();
            if granted != asked {
                // The crate derives its timers from what was asked for, which may be far from what
                // was granted.
                self.granted
                    .store(u64::try_from(granted.as_millis()).unwrap_or(0), Ordering::Relaxed);
                drop(client);
                client = self.connect(granted).await?;
            }
            self.probe(&client).await?;
            Ok::<_, StoreError>(client)
        };
        let limit = self.remote.connect_timeout;
        let silence = |_| self.no_session(&format!("no answer within {limit:?}"));
        let client = timeout(limit, open).await.map_err(silence)??;
        let facts = Facts {
            // The crate pings. That keeps the session but proves nothing: a follower that is cut
            // off answers too.
            renewed_when_idle: false,
            relays_renewals: true,
            renames_relabelled: true,
            watch_budget: WATCH_BUDGET,
            key_budget: KEY_BUDGET,
            joins_late: true,
            ..Facts::new(client.session_timeout())
        };
        Ok((facts, ZooKeeperStore::new(self, client, sent)))
    }
}

fn acls(remote: &Remote) -> Arc<[zk::Acl]> {
    let Some(acl) = &remote.acl else {
        // Who brings a password shares the locks with no other user.
        let acls = match remote.credentials {
            Some(_) => zk::Acls::creator_all(),
            None => zk::Acls::anyone_all(),
        };
        return acls.to_vec().into();
    };
    let each = acl.0.iter().map(|right| {
        let permission = right.rights.chars().fold(zk::Permission::NONE, |all, right| {
            all | match right {
                'c' => zk::Permission::CREATE,
                'd' => zk::Permission::DELETE,
                'r' => zk::Permission::READ,
                'w' => zk::Permission::WRITE,
                _ => zk::Permission::ADMIN,
            }
        });
        zk::Acl::new(permission, zk::AuthId::new(&right.scheme, &right.id))
    });
    each.collect()
}

#[cfg(test)]
mod tests;
