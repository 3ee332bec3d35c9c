//! The endpoints of a cluster, and which one to talk to.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use etcd_client::{Certificate, Client, ConnectOptions, Error, Identity, TlsOptions};
use tokio::{sync::watch, time::timeout};

use super::error::{Cause, EndpointError};
use crate::{
    backend::{error::StoreError, remote::Remote, secret::Secret},
    runtime,
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
        let current = watch::Sender::new(runtime::random_below(endpoints.len()));
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
        let known = endpoint.client.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let client = match known {
            Some(client) => client,
            None => {
                // With a user this is a request, so that it can hang like one.
                let connecting =
                    Client::connect([&endpoint.address], Some(self.options.expose().clone()));
                let client = match timeout(patience, connecting).await {
                    Ok(Ok(client)) => client,
                    Ok(Err(error)) => return Err(self.failed(index, Cause::Client(error))),
                    Err(_) => return Err(self.failed(index, Cause::Silence)),
                };
                let mut known = endpoint.client.lock().unwrap_or_else(PoisonError::into_inner);
                Arc::clone(known.get_or_insert_with(|| Arc::new(client)))
            }
        };
        Ok(Picked { index, client })
    }

    /// One attempt of one request at the current endpoint. If that endpoint fails, the next attempt
    /// goes to another one.
    pub(super) async fn request<T, F>(
        &self,
        operation: &'static str,
        request: impl FnOnce(Arc<Client>) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Error>>,
    {
        self.request_within(self.request_timeout, operation, request).await
    }

    /// The same with another timeout.
    pub(super) async fn request_within<T, F>(
        &self,
        patience: Duration,
        operation: &'static str,
        request: impl FnOnce(Arc<Client>) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let picked =
            self.pick_within(patience, 0).await.map_err(|error| error.triage(operation))?;
        let cause = match timeout(patience, request(picked.client)).await {
            Ok(Ok(reply)) => return Ok(reply),
            Ok(Err(error)) => Cause::Client(error),
            Err(_) => Cause::Silence,
        };
        Err(self.failed(picked.index, cause).triage(operation))
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
        *self.endpoints[index].client.lock().unwrap_or_else(PoisonError::into_inner) = None;
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
