//! The adapter for ZooKeeper: ephemeral sequential nodes in the layout of Curator's
//! `InterProcessMutex`, and one session for many locks.
//!
//! Each queue has a directory, and each waiter a node in it: `{tag}-lock-{sequence}`, or
//! `{tag}-{label}-lock-{sequence}` with a label. Curator sorts by what follows `lock-`, and so does
//! this adapter. The tag makes names unique for ever (`tags.rs`).
//!
//! An uncontended lock costs one request, and its release costs another, regardless of the number
//! of locks. Joining writes to the directory in the transaction that creates the node, because the
//! reply to that write has the number of children (`store/join.rs`). So the next lock overwrites
//! data that an operator has put on a lock's directory. If the operator forbids that write, each
//! lock costs a list instead.
//!
//! The adapter uses `zookeeper-client` only for single requests. The crate's own `lock` leaves
//! nodes behind when it is cancelled or a reply is lost. Its persistent watches do not survive a
//! reconnect, and its `Expired` comes after the server has granted the lock to another client. So
//! distlock implements order, retries and deadlines itself.

mod error;
mod identity;
mod names;
mod order;
mod renewal;
mod store;
mod tags;
#[cfg(feature = "zookeeper-tls")]
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

#[cfg(feature = "zookeeper-tls")]
use self::tls::Tls;
use self::{
    store::{KEY_BUDGET, WATCH_BUDGET, ZooKeeperStore},
    tags::Tags,
    wire::inline,
};
use super::{Backend, Facts, Store};
use crate::{
    backend::{Result, StoreError, handshake, remote::Remote, trust},
    error::Error,
    runtime::{
        clock::{self, timeout},
        process::FirstUse,
    },
    store_kind::StoreKind,
};

/// The crate's timers and sockets are those of async-io, which has one thread and one epoll set per
/// process. A forked child would lack the thread, and would use its parent's epoll set.
static CONNECTED: FirstUse = FirstUse::new();

/// How often a server must close the connection on the same request before that counts as its
/// reply.
const HANG_UPS: u32 = 2;

type Connected = Result<zk::Client, zk::Error>;

/// The backend of `zk://host:port`.
#[derive(Debug)]
pub(crate) struct ZooKeeper {
    remote: Remote,
    #[cfg(feature = "zookeeper-tls")]
    tls: Option<Arc<Tls>>,
    /// The ACLs of new nodes.
    acls: Arc<[zk::Acl]>,
    /// The session timeout that the servers last granted instead of the requested one, in
    /// milliseconds; 0 if they never did.
    granted: AtomicU64,
    /// Whether the servers were found to be recent enough.
    proven: AtomicBool,
    tags: Arc<Tags>,
}

/// The shortest TTL for which the client asks before it knows that servers grant a shorter one.
///
/// By default, servers grant at least 4 s. The crate's timers follow from the requested TTL, so
/// with a much shorter one, the crate would leave servers that are merely busy.
const ASKED_AT_FIRST: Duration = Duration::from_secs(1);

/// A server may be silent for at least this time, or for a tenth of the TTL if that is shorter.
const TOLERATED: Duration = Duration::from_secs(2);

impl ZooKeeper {
    pub(crate) fn new(remote: Remote) -> Result<Self, Error> {
        // zookeeper-client panics on a host that no certificate can name.
        trust::check(&remote)?;
        Ok(Self {
            acls: acls(&remote),
            #[cfg(feature = "zookeeper-tls")]
            tls: Tls::new(&remote)?.map(Arc::new),
            remote,
            granted: AtomicU64::new(0),
            proven: AtomicBool::new(false),
            tags: Arc::default(),
        })
    }

    /// Opens a session, and tries each server once.
    async fn connect(&self, ttl: Duration) -> Result<zk::Client> {
        if !CONNECTED.is_ours() {
            let source = "the process was forked after it had connected to ZooKeeper, and the \
                          client crate does not work in the child: connect only after the fork, or \
                          start another program in the child";
            return Err(StoreError::Fatal { operation: "connecting", source: source.into() });
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
                    // Without the feature, the builder rejects the option.
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
                #[cfg(feature = "zookeeper-tls")]
                self.tls.iter().for_each(|tls| tls.follow(client.state_watcher()));
                Ok(client)
            }
            Err(zk::Error::AuthFailed) => {
                let what =
                    if self.remote.sasl { "the user or the password" } else { "the credentials" };
                let servers = self.remote.endpoints.join(",");
                Err(StoreError::Denied(format!("{servers}: the servers rejected {what}").into()))
            }
            // Invalid arguments: nothing was sent.
            Err(error @ zk::Error::BadArguments(_)) => {
                Err(StoreError::Fatal { operation: "connecting", source: error.into() })
            }
            // The crate does not return each server's error.
            Err(zk::Error::NoHosts) => {
                let unknown = || {
                    self.no_session(
                        "every server was unreachable, did not reply in time, or had no quorum",
                    )
                };
                Err(handshake::fault(&self.remote).await.unwrap_or_else(unknown))
            }
            Err(error) => Err(self.no_session(&error.to_string())),
        }
    }

    /// Connects as this user.
    ///
    /// Servers that run on Netty keep reading while they create a session. If credentials come with
    /// the request for the session, such a server may answer the credentials first, which the crate
    /// takes for a broken server. So credentials are sent afterwards, unless the server requires
    /// them at once (`zookeeper.enforce.auth.enabled`).
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

    /// Connects with credentials in the request.
    ///
    /// The server may answer the credentials first. One in five attempts fails that way, and fails
    /// at once.
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
        #[cfg(feature = "zookeeper-tls")]
        if let Some(tls) = &self.tls {
            return inline(connector.with_tls(tls.options()).secure_connect(&servers)).await;
        }
        inline(connector.connect(&servers)).await
    }

    /// Returns how long a server may be silent before the crate tries another one.
    ///
    /// While connecting, it must be short enough to leave time for the next server, however long
    /// the TTL is. It also applies for the rest of the session, so it has bounds.
    ///
    /// The crate sends a ping when it has sent nothing for 3/8 of this time, rounded up to the next
    /// eighth. `renewed_for` relies on at most T/4 here. The crate's default, 2/5 of the session
    /// timeout T, would allow pauses between requests that are too long for it. A much smaller
    /// value would cost pings.
    fn patience(&self, ttl: Duration) -> Duration {
        (self.remote.connect_timeout * 3 / 4).clamp((ttl / 10).min(TOLERATED), ttl / 4)
    }

    /// Checks that the server supports what distlock needs of ZooKeeper 3.6: listing the session's
    /// own nodes, and several reads in one request.
    ///
    /// An older server closes the connection on each such request, which would look like a network
    /// failure. So this check runs once, while there is nothing to lose.
    async fn probe(&self, client: &zk::Client) -> Result<()> {
        if self.proven.load(Ordering::Relaxed) {
            return Ok(());
        }
        // A new session has no nodes.
        let mut asked = client.list_ephemerals("/").await;
        let mut refusals = 0;
        while let Err(zk::Error::ConnectionLoss | zk::Error::Custom(_)) = asked {
            // On another connection, the request is sent together with one that any server answers.
            // A server that answers that one and closes the connection on this one, twice in
            // succession, is too old.
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
                    "{servers}: the server rejected a request that ZooKeeper 3.6 introduced; use \
                     ZooKeeper 3.6 or later"
                );
                Err(StoreError::Fatal { operation: "connecting", source: source.into() })
            }
            Err(error) => Err(self.no_session(&error.to_string())),
        }
    }

    fn no_session(&self, reason: &str) -> StoreError {
        let tls = if self.remote.tls.is_some() { ", or the TLS handshake failed" } else { "" };
        let servers = self.remote.endpoints.join(", ");
        StoreError::Unavailable(format!("no session was opened on {servers}: {reason}{tls}").into())
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
            let mut asked = match self.granted.load(Ordering::Relaxed) {
                0 => ttl.max(ASKED_AT_FIRST),
                granted => Duration::from_millis(granted),
            };
            let mut client = self.connect(asked).await?;
            if asked == ASKED_AT_FIRST && client.session_timeout() == asked && ttl < asked {
                drop(client);
                asked = ttl;
                client = self.connect(asked).await?;
            }
            let granted = client.session_timeout();
            if granted != asked {
                // The crate derives its timers from the requested timeout, which may differ much
                // from the granted one.
                self.granted
                    .store(u64::try_from(granted.as_millis()).unwrap_or(0), Ordering::Relaxed);
                drop(client);
                client = self.connect(granted).await?;
            }
            self.probe(&client).await?;
            Ok::<_, StoreError>(client)
        };
        let limit = self.remote.connect_timeout;
        let silence = |_| self.no_session(&format!("no reply within {limit:?}"));
        let client = timeout(limit, open).await.map_err(silence)??;
        let facts = Facts {
            // The crate sends pings. They keep the session but prove nothing: a follower that is
            // cut off also answers them.
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
        // A client with a password shares the locks with no other user.
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
