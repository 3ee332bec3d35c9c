//! A connection to the primary.

use std::{
    collections::HashMap,
    future::poll_fn,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    task::Poll,
    time::Duration,
};

use redis::{
    AsyncConnectionConfig, Cmd, FromRedisValue, PushInfo, RedisConnectionInfo, RedisResult,
    aio::MultiplexedConnection,
};
use tokio::sync::mpsc;

use super::{
    answer::Answer,
    batch::Batch,
    call::Call,
    clock::WatchedClock,
    cluster,
    error::refused,
    message,
    script::Keys,
    server::{CONNECTING, Identity, SETTINGS, Server},
};
use crate::{
    backend::{
        Durability, Result, StoreError,
        bridge::Bridge,
        credentials,
        remote::Remote,
        resp::{self, Driver},
        sql::endpoints::Endpoints,
    },
    runtime::{boot, clock},
};

/// Makes connections.
#[derive(Debug)]
pub(super) struct Connector {
    pub(super) remote: Remote,
    /// The servers, or the sentinels that monitor them.
    pub(super) endpoints: Endpoints,
    pub(super) keys: Keys,
    pub(super) clock: WatchedClock,
    /// The highest entry number that any reply has reported.
    pub(super) newest: AtomicU64,
    /// The keys of version 1 are marked.
    pub(super) took_over: AtomicBool,
    /// The id of this host's boot, if all of its processes share one clock.
    pub(super) boot: Option<String>,
}

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// All other requests, and the server's notifications.
    Requests,
    /// Keepalives, so that no large reply or slow request delays them.
    Beats,
    /// Requests that count only once replicas have them, which the connection waits for.
    Acks,
}

/// A connection that works only while [`Link::heard`] is polled.
pub(super) struct Link {
    pub(super) endpoint: String,
    pub(super) connection: MultiplexedConnection,
    driver: Driver,
    /// The connection has ended.
    over: bool,
    pushes: mpsc::UnboundedReceiver<PushInfo>,
    /// The server's identity.
    pub(super) server: Identity,
    /// See [`Server::writes_soon`].
    pub(super) writes_soon: bool,
    pub(super) durability: Option<Durability>,
}

/// The kind of server at an address.
enum Met {
    Primary(Box<Link>),
    /// A server that redirects to another address.
    Elsewhere(String),
}

/// The number of servers that are tried, each of them named by the one before.
pub(super) const HOPS: usize = 4;

impl Connector {
    pub(super) fn new(remote: Remote) -> Self {
        let endpoints = Endpoints::new(remote.endpoints.clone());
        let (clock, newest, took_over) = <_>::default();
        let keys = Keys::of(&remote.namespace);
        let boot = boot::id().ok().map(|id| id.replace('-', ""));
        Self { remote, endpoints, keys, clock, newest, took_over, boot }
    }

    pub(super) fn namespace(&self) -> &str {
        &self.remote.namespace
    }

    /// Returns the bridge to other libraries' locks.
    pub(super) fn bridge(&self) -> Option<&Bridge> {
        self.remote.bridge.as_ref()
    }

    /// Returns the number of replicas that must have a write before it counts.
    pub(super) fn acks(&self) -> Option<u32> {
        self.remote.replicas
    }

    pub(super) async fn connect(
        &self,
        session: i64,
        used: Use,
        patience: Duration,
    ) -> Result<Link> {
        let connect = |endpoint| self.connect_by(endpoint, session, used);
        let connected = self.endpoints.connect(patience, connect).await;
        connected.map_err(|error| self.named(error))
    }

    /// Connects for a session that exists already, and reports the session to the server.
    pub(super) async fn connect_again(
        &self,
        session: i64,
        used: Use,
        patience: Duration,
    ) -> Result<Link> {
        let connect = |endpoint| async move {
            let mut link = self.connect_by(endpoint, session, used).await?;
            let hello = message::hello(&link.server, self.newest.load(Ordering::Acquire));
            let sent = clock::now();
            let answer = self.call(&mut link, session, &hello).await?;
            self.clock.read(&link.server.name, &answer.clock, sent);
            answer.outcomes(CONNECTING)?;
            Ok(link)
        };
        let connected = self.endpoints.connect(patience, connect).await;
        connected.map_err(|error| self.named(error))
    }

    /// Adds the service and the sentinels to an error that found no primary.
    fn named(&self, error: StoreError) -> StoreError {
        match (&self.remote.service, error) {
            (Some(service), StoreError::Unavailable(source)) => {
                let sentinels = self.remote.endpoints.join(", ");
                let reason = format!(
                    "the service {service} of the sentinels {sentinels} cannot be used: {source}"
                );
                StoreError::Unavailable(reason.into())
            }
            (_, error) => error,
        }
    }

    /// Runs a script while no other request uses the connection.
    pub(super) async fn call(&self, link: &mut Link, session: i64, call: &Call) -> Result<Answer> {
        let endpoint = link.endpoint.clone();
        let connection = link.connection.clone();
        let asked = Batch::run_one(call.of(session, None), connection, self.keys.all());
        let value = link.driven(asked).await.map_err(|error| refused(&endpoint, &error))?;
        Answer::read(value)
    }

    /// Returns the number of replicas that a sentinel reports, if sentinels are used.
    pub(super) async fn known_replicas(&self) -> Result<Option<u32>> {
        let Some(service) = &self.remote.service else { return Ok(None) };
        let ask = |sentinel| self.replicas_of(service, sentinel);
        let connected = self.endpoints.connect(self.remote.request_timeout, ask).await;
        connected.map(Some).map_err(|error| self.named(error))
    }

    /// Connects to the primary that this endpoint is or redirects to.
    async fn connect_by(&self, endpoint: &str, session: i64, used: Use) -> Result<Link> {
        let mut named = match &self.remote.service {
            None => None,
            Some(service) => Some(self.primary_of(service, endpoint).await?),
        };
        for _ in 0..HOPS {
            if let Some(address) = &named {
                self.check_address(endpoint, address)?;
            }
            let address = named.as_deref().unwrap_or(endpoint);
            match self.connect_to(address, session, used).await? {
                Met::Primary(link) => return Ok(*link),
                Met::Elsewhere(other) => named = Some(other),
            }
        }
        Err(StoreError::Unavailable(format!("{endpoint} keeps redirecting (MOVED)").into()))
    }

    /// Checks that user and password may be sent to an address that an endpoint has named.
    fn check_address(&self, endpoint: &str, address: &str) -> Result<()> {
        let is_safe = self.remote.tls.is_some()
            || self.remote.credentials.is_none()
            || self.remote.allow_plaintext
            || credentials::stays_here(address);
        if is_safe {
            return Ok(());
        }
        Err(StoreError::Denied(
            format!(
                "{endpoint} names the server {address}, and the password would be sent there \
                 without encryption: use TLS, or allow this with allow_plaintext_credentials=true"
            )
            .into(),
        ))
    }

    /// Connects to another server of the cluster, which an endpoint has named.
    pub(super) async fn begin_at(&self, endpoint: &str, address: &str) -> Result<Link> {
        self.check_address(endpoint, address)?;
        self.begin(address, resp::as_ourselves(&self.remote, <_>::default())).await
    }

    async fn connect_to(&self, endpoint: &str, session: i64, used: Use) -> Result<Met> {
        let database = self.remote.database.as_ref().and_then(|number| number.parse().ok());
        let info = RedisConnectionInfo::default().set_db(database.unwrap_or(0));
        let mut link = self.begin(endpoint, resp::as_ourselves(&self.remote, info)).await?;
        let connection = link.connection.clone();
        let greeting = greet(connection.clone(), self.keys.channel(session), used);
        let server = link.driven(greeting).await.map_err(|error| refused(endpoint, &error))?;
        server.check(endpoint, self.remote.allow_eviction)?;
        if self.bridge().is_some() {
            server.check_for_bridge(endpoint, self.remote.allow_eviction)?;
        }
        if server.is_in_cluster() {
            let asking = cluster::keeper(connection, &self.keys);
            let asked = link.driven(asking).await.map_err(|error| refused(endpoint, &error))?;
            if let Some(other) = asked {
                return Ok(Met::Elsewhere(cluster::address(endpoint, &other)?));
            }
        }
        server.is_primary(endpoint)?;
        (link.server, link.writes_soon) = (server.identity(), server.writes_soon());
        link.server.replicated |= self.acks().is_some() || self.remote.service.is_some();
        link.durability = Some(server.durability(self.acks(), None));
        self.clock.meet(&link.server.name);
        Ok(Met::Primary(Box::new(link)))
    }

    /// Connects to an endpoint, whatever server it is.
    pub(super) async fn begin(&self, endpoint: &str, info: RedisConnectionInfo) -> Result<Link> {
        let (heard, pushes) = mpsc::unbounded_channel();
        let config = AsyncConnectionConfig::new().set_push_sender(heard);
        let begun = resp::begin(&self.remote, endpoint, info, config, refused).await;
        let (connection, driver) = begun?;
        Ok(Link {
            endpoint: endpoint.to_owned(),
            connection,
            driver,
            over: false,
            pushes,
            server: Identity::default(),
            writes_soon: false,
            durability: None,
        })
    }
}

impl Link {
    /// Returns the server's next push message, or `None` when the connection ends. It must be
    /// polled all the time, because it also drives all requests.
    pub(super) async fn heard(&mut self) -> Option<PushInfo> {
        poll_fn(|context| {
            self.over = self.over || self.driver.as_mut().poll(context).is_ready();
            // A push message that the driver has just received comes before the reply that followed
            // it, if this is polled before the task that awaits the reply.
            match self.pushes.poll_recv(context) {
                Poll::Ready(Some(push)) => Poll::Ready(Some(push)),
                _ if self.over => Poll::Ready(None),
                _ => Poll::Pending,
            }
        })
        .await
    }

    /// Sends a command while no other request uses the connection.
    pub(super) async fn query<T: FromRedisValue>(&mut self, command: &Cmd) -> RedisResult<T> {
        let mut connection = self.connection.clone();
        self.driven(command.query_async(&mut connection)).await
    }

    /// Drives the connection while this future runs, and no other request uses it.
    pub(super) async fn driven<T>(&mut self, asking: impl Future<Output = T>) -> T {
        let mut asking = std::pin::pin!(asking);
        loop {
            tokio::select! {
                biased;
                // The request reports the end of the connection as an error, too.
                () = &mut self.driver, if !self.over => self.over = true,
                answer = &mut asking => return answer,
            }
        }
    }
}

/// Subscribes, and reads what the server is.
async fn greet(
    mut connection: MultiplexedConnection,
    channel: String,
    used: Use,
) -> RedisResult<Server> {
    if used == Use::Requests {
        connection.subscribe(channel).await?;
    }
    ask_settings(connection).await
}

pub(super) async fn ask_settings(mut connection: MultiplexedConnection) -> RedisResult<Server> {
    let info: String = redis::cmd("INFO").query_async(&mut connection).await?;
    let mut config = redis::cmd("CONFIG");
    config.arg("GET").arg(&SETTINGS);
    let settings: RedisResult<HashMap<_, _>> = config.query_async(&mut connection).await;
    // Not every user may read the settings.
    Ok(Server::new(&info, settings.unwrap_or_default()))
}
