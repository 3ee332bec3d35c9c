//! The endpoints of a cluster, and the one in use.

use std::{sync::Arc, time::Duration};

use etcd_client::{
    Client, ConnectOptions, Error, GetOptions, GetResponse, LeaseTimeToLiveOptions, ResponseHeader,
};
use tokio::sync::watch;
use tonic::{Code, transport};

use super::{
    error::{Cause, EndpointError, in_time, is_learner},
    lease_keys,
    renewal::{Renewer, Replies, Reply},
    wire,
};
use crate::{
    backend::{Result, credentials::Credentials, remote::Remote, source::Source, tls::Material},
    runtime::{clock, mutex::Mutex, random},
};

/// The interval of pings. etcd closes a connection with more than one ping every 5 s
/// (`DefaultGRPCKeepAliveMinTime`).
const PING_INTERVAL: Duration = Duration::from_secs(10);
const _: () = assert!(PING_INTERVAL.as_secs() >= 5);
const PING_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the old connection stays in use between attempts with newer credentials or
/// certificates.
const PATIENCE_WITH_NEW: Duration = Duration::from_secs(1);

/// The codes of errors that are not a decision of the server.
const NO_ANSWER: [Code; 5] =
    [Code::Cancelled, Code::Unknown, Code::DeadlineExceeded, Code::Internal, Code::Unavailable];

/// One connection per endpoint, made when needed. Requests go to the current endpoint until it
/// fails. A renewal that gets no reply is also sent to another endpoint.
///
/// etcd-client's own balancing is not used: it sends each request to a random endpoint, even to a
/// dead one. With one dead endpoint of three, every third request fails
/// (<https://github.com/grpc/grpc-rust/issues/2839>).
#[derive(Debug)]
pub(super) struct Pool {
    endpoints: Vec<Endpoint>,
    pub(super) remote: Remote,
    /// Index of the endpoint in use.
    current: watch::Sender<usize>,
}

struct Endpoint {
    address: String,
    connection: Mutex<Option<Connection>>,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.address)
    }
}

#[derive(Clone)]
struct Connection {
    /// Shared, because a clone of it clones a client for each of etcd's services.
    client: Arc<Client>,
    renewer: Arc<Renewer>,
    identity: Identity,
    /// Until then it stays in use although there are newer credentials or certificates.
    used_until: Duration,
}

/// The credentials and certificates of a connection.
#[derive(Clone, PartialEq)]
struct Identity {
    credentials: Option<Arc<Credentials>>,
    tls: Option<Arc<Material>>,
}

/// A connection that has been picked for a request.
pub(super) struct Picked {
    pub(super) index: usize,
    pub(super) client: Arc<Client>,
    renewer: Arc<Renewer>,
}

impl Picked {
    fn new(index: usize, connection: &Connection) -> Self {
        let (client, renewer) = (Arc::clone(&connection.client), Arc::clone(&connection.renewer));
        Self { index, client, renewer }
    }

    /// Renews a lease, and returns the reply. For `in_doubt`, see [`Renewer::renew`].
    pub(super) async fn renew(
        &self,
        lease: i64,
        in_doubt: bool,
    ) -> Result<(Reply, Replies), Error> {
        if self.renewer.lacks_token() {
            prove(&self.client).await?;
        }
        self.renewer.renew(lease, in_doubt).await
    }

    /// Reads the keys of a lease.
    pub(super) async fn keys(&self, lease: i64) -> Result<Vec<Vec<u8>>, Error> {
        let options = LeaseTimeToLiveOptions::new().with_keys();
        match self.client.lease_client().time_to_live(lease, Some(options)).await {
            Ok(reply) => Ok(reply.keys().to_vec()),
            // The reply was too large. etcd-client has just sent the current token.
            Err(Error::GRpcStatus(status)) if status.code() == Code::OutOfRange => {
                lease_keys::read(&self.renewer, lease).await
            }
            Err(error) => Err(error),
        }
    }
}

impl Pool {
    pub(super) fn new(remote: Remote) -> Self {
        let endpoint =
            |address: &String| Endpoint { address: address.clone(), connection: Mutex::default() };
        let endpoints: Vec<_> = remote.endpoints.iter().map(endpoint).collect();
        // Clients are spread over the members.
        let current = watch::Sender::new(random::below(endpoints.len()));
        Self { endpoints, remote, current }
    }

    fn newest_identity(&self) -> Identity {
        let credentials = self.remote.credentials.as_ref().map(Source::newest);
        Identity { credentials, tls: self.remote.material() }
    }

    fn really_newest_identity(&self) -> Identity {
        self.remote.expire_credentials();
        self.newest_identity()
    }

    /// Returns the options, which contain the password: do not store or print them.
    fn options(identity: &Identity) -> ConnectOptions {
        // A member without a leader fails at once instead of waiting for one.
        let options = ConnectOptions::new().with_require_leader(true).with_auto_token_refresh(true);
        match &identity.credentials {
            Some(credentials) => {
                options.with_user(&credentials.user, credentials.password.expose())
            }
            None => options,
        }
    }

    /// Returns the endpoint with its TLS settings, which contain the key.
    fn target(
        &self,
        address: &str,
        identity: &Identity,
    ) -> Result<transport::Endpoint, transport::Error> {
        let scheme = if identity.tls.is_some() { "https" } else { "http" };
        let mut target = transport::Endpoint::from_shared(format!("{scheme}://{address}"))?
            .connect_timeout(self.remote.request_timeout)
            .http2_keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            // etcd does not permit pings on a connection without streams.
            .keep_alive_while_idle(false);
        if let Some(tls) = &identity.tls {
            target = target.tls_config(super::tls::options(tls))?;
        }
        Ok(target)
    }

    pub(super) fn len(&self) -> usize {
        self.endpoints.len()
    }

    /// Returns a receiver that is notified when the endpoint in use changes.
    pub(super) fn watch_current(&self) -> watch::Receiver<usize> {
        self.current.subscribe()
    }

    /// Returns the connection of the endpoint that is `ahead` places after the current one.
    pub(super) async fn pick(&self, ahead: usize) -> Result<Picked, EndpointError> {
        self.pick_within(self.remote.request_timeout, ahead).await
    }

    async fn pick_within(&self, patience: Duration, ahead: usize) -> Result<Picked, EndpointError> {
        let index = (*self.current.borrow() + ahead) % self.endpoints.len();
        let endpoint = &self.endpoints[index];
        let identity = self.newest_identity();
        let known = {
            let mut known = endpoint.connection.lock();
            if let Some(known) = &mut *known {
                if known.identity == identity || clock::now() < known.used_until {
                    return Ok(Picked::new(index, known));
                }
                // While this call connects, other calls use the known connection.
                known.used_until = clock::now() + PATIENCE_WITH_NEW;
            }
            known.clone()
        };
        // Boxed: it is rarely needed, and the future of every request would be larger.
        Box::pin(self.pick_new(index, identity, known, patience)).await
    }

    /// Connects to this endpoint. If that fails, the known connection is used, if there is one.
    async fn pick_new(
        &self,
        index: usize,
        mut identity: Identity,
        known: Option<Connection>,
        patience: Duration,
    ) -> Result<Picked, EndpointError> {
        let endpoint = &self.endpoints[index];
        let mut connected = self.connect(endpoint, &identity, known.is_some(), patience).await;
        if connected.as_ref().is_err_and(Cause::is_unknown_user) && known.is_none() {
            // There may be newer credentials than those that were read.
            let tried = std::mem::replace(&mut identity, self.really_newest_identity());
            if tried != identity {
                connected = self.connect(endpoint, &identity, false, patience).await;
            }
        }
        let (client, renewer) = match connected {
            Ok((client, renewer)) => (Arc::new(client), Arc::new(renewer)),
            // If the server rejects the new identity, it may still accept the known one.
            Err(cause) => {
                let known = known.ok_or_else(|| self.failed(index, None, cause))?;
                return Ok(Picked::new(index, &known));
            }
        };
        let mut connection = endpoint.connection.lock();
        // Another call may have connected first.
        match &*connection {
            Some(connection) if connection.identity == identity => {
                return Ok(Picked::new(index, connection));
            }
            _ => {}
        }
        let new = Connection { client, renewer, identity, used_until: Duration::ZERO };
        let picked = Picked::new(index, &new);
        *connection = Some(new);
        Ok(picked)
    }

    /// Connects to an endpoint. With a user this sends a request, which can hang. For `prove`, see
    /// [`prove`].
    async fn connect(
        &self,
        endpoint: &Endpoint,
        identity: &Identity,
        prove: bool,
        patience: Duration,
    ) -> Result<(Client, Renewer), Cause> {
        let connecting = async {
            let channel = wire::channel(self.target(&endpoint.address, identity)?);
            let renewer = Renewer::new(channel, identity.credentials.is_some());
            let options = Self::options(identity);
            let client = Client::from_channel(renewer.channel(), Some(options)).await?;
            if prove {
                self::prove(&client).await?;
            }
            Ok((client, renewer))
        };
        in_time(patience, connecting).await
    }

    /// Sends one request once, to the current endpoint. If that endpoint fails, the next attempt
    /// goes to another one.
    pub(super) async fn request<T>(
        &self,
        operation: &'static str,
        request: impl AsyncFnOnce(Arc<Client>) -> Result<T, Error>,
    ) -> Result<T> {
        self.request_within(self.remote.request_timeout, operation, request).await
    }

    /// Reads a key, or the keys that the options select.
    pub(super) async fn get(
        &self,
        operation: &'static str,
        key: &str,
        options: GetOptions,
    ) -> Result<GetResponse> {
        let get = async |client: Arc<Client>| client.kv_client().get(key, Some(options)).await;
        self.request(operation, get).await
    }

    /// Sends one request once, and returns the reply and its revision. A reply older than `least`
    /// counts as a failure of the member, and the next attempt goes to another one.
    pub(super) async fn read<T>(
        &self,
        operation: &'static str,
        least: u64,
        header: fn(&T) -> Option<&ResponseHeader>,
        request: impl AsyncFnOnce(Arc<Client>) -> Result<T, Error>,
    ) -> Result<(T, u64)> {
        let picked = self.pick(0).await.map_err(|error| error.triage(operation))?;
        let reply = in_time(self.remote.request_timeout, request(Arc::clone(&picked.client))).await;
        let reply = reply.map_err(|cause| self.refused(&picked, cause).triage(operation))?;
        let revision = header(&reply).map_or(0, |header| header.revision().unsigned_abs());
        if revision < least {
            let failed = self.failed(picked.index, Some(&picked.client), Cause::Stale);
            return Err(failed.triage(operation));
        }
        Ok((reply, revision))
    }

    /// Sends a request as [`request`](Self::request) does, with another timeout.
    pub(super) async fn request_within<T>(
        &self,
        patience: Duration,
        operation: &'static str,
        request: impl AsyncFnOnce(Arc<Client>) -> Result<T, Error>,
    ) -> Result<T> {
        let picked =
            self.pick_within(patience, 0).await.map_err(|error| error.triage(operation))?;
        let reply = in_time(patience, request(Arc::clone(&picked.client))).await;
        reply.map_err(|cause| self.refused(&picked, cause).triage(operation))
    }

    /// Handles the failure of a request on an authenticated connection.
    ///
    /// The server may no longer know the connection's user, because the token has expired or the
    /// password was changed. Then the next attempt uses a new connection with the newest
    /// credentials, and the user sees only the error of that attempt.
    pub(super) fn refused(&self, by: &Picked, cause: Cause) -> EndpointError {
        if self.remote.credentials.is_none() || !cause.is_unknown_user() {
            return self.failed(by.index, Some(&by.client), cause);
        }
        let endpoint = &self.endpoints[by.index];
        {
            let mut connection = endpoint.connection.lock();
            // Another request may have failed in the same way, and a new connection may exist.
            // Authentication costs a server 60 ms of CPU time (bcrypt).
            let known = connection.as_ref().map(|connection| &connection.client);
            if known.is_some_and(|known| Arc::ptr_eq(known, &by.client)) {
                self.remote.expire_credentials();
                *connection = None;
            }
        }
        EndpointError { endpoint: endpoint.address.clone(), cause: cause.outdated() }
    }

    /// Handles the failure of a request. If the endpoint is unreachable, the next endpoint becomes
    /// the current one. For `by`, see [`leave_endpoint`](Self::leave_endpoint).
    fn failed(&self, index: usize, by: Option<&Arc<Client>>, cause: Cause) -> EndpointError {
        let network = match &cause {
            Cause::ProcessStall | Cause::Stale => true,
            Cause::Client(Error::GRpcStatus(status)) => {
                NO_ANSWER.contains(&status.code()) || is_learner(status.message())
            }
            Cause::Client(_) => true,
            Cause::Outdated(_) => false,
        };
        if network {
            self.leave_endpoint(index, by);
        }
        EndpointError { endpoint: self.endpoints[index].address.clone(), cause }
    }

    /// Leaves the endpoint of a connection that has failed.
    pub(super) fn leave(&self, by: &Picked) {
        self.leave_endpoint(by.index, Some(&by.client));
    }

    /// Leaves an endpoint for the next one, and drops its connection. A connection that is silently
    /// dead would otherwise be reused. `by`: the connection that has failed; `None` if none could
    /// be made.
    fn leave_endpoint(&self, index: usize, by: Option<&Arc<Client>>) {
        {
            let mut connection = self.endpoints[index].connection.lock();
            // A request may fail long after its connection was replaced. That proves nothing about
            // the newer connection.
            let is_newer = |known: &Connection| by.is_none_or(|by| !Arc::ptr_eq(by, &known.client));
            if connection.as_ref().is_some_and(is_newer) {
                return;
            }
            *connection = None;
        }
        let next = (index + 1) % self.endpoints.len();
        // A single endpoint stays the current one. The tasks that watch its connection must still
        // be notified that it was dropped.
        self.current.send_if_modified(|current| {
            let ours = *current == index;
            if ours {
                *current = next;
            }
            ours
        });
    }
}

/// Checks that the server accepts the connection.
///
/// The server rejects a read without a key before it checks the user. Without a user, connecting
/// sends no request.
async fn prove(client: &Client) -> Result<(), Error> {
    match client.kv_client().get("", None).await {
        Err(Error::GRpcStatus(status)) if status.code() == Code::InvalidArgument => Ok(()),
        reply => reply.map(drop),
    }
}

#[cfg(test)]
mod tests;
