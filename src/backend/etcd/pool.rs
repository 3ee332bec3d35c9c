//! The endpoints of a cluster, and which one to talk to.

use std::{sync::Arc, time::Duration};

use etcd_client::{
    Certificate, Client, ConnectOptions, Error, GetOptions, GetResponse, Identity, TlsOptions,
};
use tokio::sync::watch;

use super::error::{Cause, EndpointError, in_time};
use crate::{
    backend::{error::Result, remote::Remote, secret::Secret},
    runtime::{mutex::Mutex, random},
};

/// Below 5 s etcd takes a client's pings for an attack and hangs up
/// (`DefaultGRPCKeepAliveMinTime`).
const PING_INTERVAL: Duration = Duration::from_secs(10);
const _: () = assert!(PING_INTERVAL.as_secs() >= 5);
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// One connection for each endpoint, made when needed; all requests go to the current one until it
/// fails.
///
/// Not the client's own balancing: that sends each request to a random endpoint, also to those that
/// are known to be dead, so that one dead endpoint of three fails every third request
/// (<https://github.com/grpc/grpc-rust/issues/2839>).
#[derive(Debug)]
pub(super) struct Pool {
    endpoints: Vec<Endpoint>,
    /// With the password and the key of the client's certificate.
    options: Secret<ConnectOptions>,
    pub(super) request_timeout: Duration,
    /// Index of the endpoint in use.
    current: watch::Sender<usize>,
}

struct Endpoint {
    address: String,
    /// Shared, as a clone of it clones a client for each of etcd's services.
    client: Mutex<Option<Arc<Client>>>,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.address)
    }
}

/// A connection that has been picked for a request.
pub(super) struct Picked {
    pub(super) index: usize,
    pub(super) client: Arc<Client>,
}

impl Pool {
    pub(super) fn new(remote: Remote) -> Self {
        let mut options = ConnectOptions::new()
            .with_connect_timeout(remote.request_timeout)
            .with_keep_alive(PING_INTERVAL, PING_TIMEOUT)
            // etcd does not permit pings on a connection without streams.
            .with_keep_alive_while_idle(false)
            // A member without a leader says so at once instead of waiting for one.
            .with_require_leader(true)
            .with_auto_token_refresh(true);
        if let Some(credentials) = remote.credentials {
            options = options.with_user(credentials.user, credentials.password.into_exposed());
        }
        if let Some(tls) = remote.tls {
            let mut config = TlsOptions::new();
            config = match tls.ca {
                Some(ca) => config.ca_certificate(Certificate::from_pem(ca)),
                None => config.with_enabled_roots(),
            };
            if let Some((certificate, key)) = tls.identity {
                config = config.identity(Identity::from_pem(certificate, key.expose()));
            }
            options = options.with_tls(config);
        }
        let endpoint = |address| Endpoint { address, client: Mutex::default() };
        let endpoints: Vec<_> = remote.endpoints.into_iter().map(endpoint).collect();
        // Clients spread over the members.
        let current = watch::Sender::new(random::below(endpoints.len()));
        let options = Secret::new(options);
        Self { endpoints, options, request_timeout: remote.request_timeout, current }
    }

    pub(super) fn len(&self) -> usize {
        self.endpoints.len()
    }

    /// Tells when the endpoint in use changes.
    pub(super) fn watch_current(&self) -> watch::Receiver<usize> {
        self.current.subscribe()
    }

    /// The connection of the endpoint that comes `ahead` places after the current one.
    pub(super) async fn pick(&self, ahead: usize) -> Result<Picked, EndpointError> {
        self.pick_within(self.request_timeout, ahead).await
    }

    async fn pick_within(&self, patience: Duration, ahead: usize) -> Result<Picked, EndpointError> {
        let index = (*self.current.borrow() + ahead) % self.endpoints.len();
        let endpoint = &self.endpoints[index];
        let known = endpoint.client.lock().clone();
        let client = match known {
            Some(client) => client,
            None => {
                // With a user this is a request, so that it can hang like one.
                let connecting =
                    Client::connect([&endpoint.address], Some(self.options.expose().clone()));
                let client = in_time(patience, connecting).await;
                let client = client.map_err(|cause| self.failed(index, cause))?;
                Arc::clone(endpoint.client.lock().get_or_insert_with(|| Arc::new(client)))
            }
        };
        Ok(Picked { index, client })
    }

    /// One attempt of one request at the current endpoint. If that endpoint fails, the next attempt
    /// goes to another one.
    pub(super) async fn request<T>(
        &self,
        operation: &'static str,
        request: impl AsyncFnOnce(Arc<Client>) -> Result<T, Error>,
    ) -> Result<T> {
        self.request_within(self.request_timeout, operation, request).await
    }

    /// Reads a key, or those that the options say.
    pub(super) async fn get(
        &self,
        operation: &'static str,
        key: &str,
        options: GetOptions,
    ) -> Result<GetResponse> {
        let get = async |client: Arc<Client>| client.kv_client().get(key, Some(options)).await;
        self.request(operation, get).await
    }

    /// The same with another timeout.
    pub(super) async fn request_within<T>(
        &self,
        patience: Duration,
        operation: &'static str,
        request: impl AsyncFnOnce(Arc<Client>) -> Result<T, Error>,
    ) -> Result<T> {
        let picked =
            self.pick_within(patience, 0).await.map_err(|error| error.triage(operation))?;
        let reply = in_time(patience, request(picked.client)).await;
        reply.map_err(|cause| self.failed(picked.index, cause).triage(operation))
    }

    /// Takes note of a failed request: an endpoint that cannot be talked to is left for the next
    /// one.
    pub(super) fn failed(&self, index: usize, cause: Cause) -> EndpointError {
        let network = match &cause {
            Cause::Silence => true,
            Cause::Client(Error::GRpcStatus(status)) => {
                // Everything that is not the server's considered answer.
                matches!(status.code() as i32, 1 | 2 | 4 | 13 | 14)
            }
            Cause::Client(error) => !matches!(error, Error::LeaseKeepAliveError(_)),
        };
        if network {
            self.leave(index);
        }
        EndpointError { endpoint: self.endpoints[index].address.clone(), cause }
    }

    /// Moves on from an endpoint, and forgets its connection: one that is silently dead would
    /// otherwise be used again.
    pub(super) fn leave(&self, index: usize) {
        *self.endpoints[index].client.lock() = None;
        let next = (index + 1) % self.endpoints.len();
        // With a single endpoint nothing moves, but the tasks that watch its connection have to
        // know that it is given up.
        self.current.send_if_modified(|current| {
            let ours = *current == index;
            if ours {
                *current = next;
            }
            ours
        });
    }
}
