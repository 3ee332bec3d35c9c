//! One connection to the one server that can be written to.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::net::TcpStream;
use tokio_postgres::{
    AsyncMessage, Client, Config, Connection, SimpleQueryMessage, config::SslMode,
};

use super::{
    error::{is_read_only, refused},
    statements,
    tls::{Secured, Securing},
};
use crate::backend::{
    error::{Result, StoreError},
    remote::Remote,
    sql::{
        endpoints::Endpoints,
        outcome::{Outcome, Row},
        server_clock::ServerClock,
    },
};

/// Makes connections.
#[derive(Debug)]
pub(super) struct Connector {
    remote: Remote,
    endpoints: Endpoints,
    pub(super) clock: ServerClock,
}

/// A connection that a session has begun on.
pub(super) struct Link {
    pub(super) endpoint: String,
    pub(super) client: Arc<Client>,
    connection: Connection<TcpStream, Secured>,
    /// There are no tables yet.
    pub(super) bare: bool,
}

impl Connector {
    pub(super) fn new(remote: Remote) -> Self {
        let endpoints = Endpoints::new(remote.endpoints.clone());
        Self { remote, endpoints, clock: ServerClock::default() }
    }

    /// How long a request may take.
    pub(super) fn patience(&self) -> Duration {
        self.remote.request_timeout
    }

    /// How long it may take to begin a session.
    pub(super) fn patience_at_first(&self) -> Duration {
        self.remote.connect_timeout.mul_f64(0.9)
    }

    pub(super) async fn connect(&self, session: i64, patience: Duration) -> Result<Link> {
        self.endpoints.connect(patience, |endpoint| self.connect_to(endpoint, session)).await
    }

    /// The one in use has fallen silent: begin with the next one.
    pub(super) fn leave(&self) {
        self.endpoints.leave();
    }

    async fn connect_to(&self, endpoint: &str, session: i64) -> Result<Link> {
        let unavailable =
            |error: std::io::Error| StoreError::Unavailable(format!("{endpoint}: {error}").into());
        let material = self.remote.tls.as_ref().map(|tls| tls.newest());
        let securing = Securing::new(material.as_deref(), endpoint).map_err(unavailable)?;
        let mut config = Config::new();
        config.application_name("distlock");
        config.ssl_mode(if securing.is_on() { SslMode::Require } else { SslMode::Disable });
        if let Some(credentials) = &self.remote.credentials {
            let newest = credentials.newest();
            config.user(newest.user.as_str()).password(newest.password.expose());
        }
        if let Some(database) = &self.remote.database {
            config.dbname(database.as_str());
        }
        let tcp = TcpStream::connect(endpoint).await.map_err(unavailable)?;
        tcp.set_nodelay(true).map_err(unavailable)?;
        let (client, connection) = config.connect_raw(tcp, securing).await.map_err(|error| {
            if let Some(credentials) = &self.remote.credentials {
                // It may have been replaced a moment ago.
                credentials.expire();
            }
            refused(endpoint, &error)
        })?;
        let mut link = Link {
            endpoint: endpoint.to_owned(),
            client: Arc::new(client),
            connection,
            bare: false,
        };
        let reading = |what: &str| {
            StoreError::Unavailable(
                format!("{endpoint} {what}: locks are kept by the primary, name that").into(),
            )
        };
        let hello = link.ask(&statements::hello(session, self.patience())).await;
        let hello = hello.map_err(|error| match is_read_only(&error) {
            true => reading("is a standby or read-only"),
            false => refused(endpoint, &error),
        })?;
        let told = hello.get(statements::HELLO_TELLS).and_then(Outcome::first);
        let told = told.ok_or_else(|| reading("does not tell what it is"))?;
        if told.flag(0) {
            return Err(reading("is a standby (pg_is_in_recovery)"));
        }
        if told.flag(1) {
            return Err(reading("is read-only (transaction_read_only)"));
        }
        link.bare = told.flag(2);
        Ok(link)
    }
}

impl Link {
    /// Asks while nobody else does.
    pub(super) async fn ask(&mut self, sql: &str) -> Result<Vec<Outcome>, tokio_postgres::Error> {
        let client = Arc::clone(&self.client);
        let mut asking = std::pin::pin!(client.simple_query(sql));
        let mut open = true;
        loop {
            tokio::select! {
                biased;
                // Its end is an error of the request's, too.
                heard = self.heard(), if open => open = matches!(heard, Some(Ok(_))),
                answer = &mut asking => return answer.map(outcomes),
            }
        }
    }

    /// What the server says unasked. `None` and errors are the end of the connection. Has to be
    /// polled all the time, also for what is asked.
    pub(super) async fn heard(&mut self) -> Option<Result<AsyncMessage, tokio_postgres::Error>> {
        poll_fn(|context| self.poll_heard(context)).await
    }

    fn poll_heard(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<AsyncMessage, tokio_postgres::Error>>> {
        self.connection.poll_message(context)
    }
}

/// What each statement came to, in order.
pub(super) fn outcomes(messages: Vec<SimpleQueryMessage>) -> Vec<Outcome> {
    let (mut outcomes, mut rows) = (Vec::new(), Vec::new());
    for message in messages {
        match message {
            SimpleQueryMessage::Row(row) => {
                let texts = (0..row.len()).map(|column| row.get(column).map(str::to_owned));
                rows.push(Row::new(texts.collect()));
            }
            SimpleQueryMessage::CommandComplete(count) => {
                outcomes.push(Outcome::new(std::mem::take(&mut rows), count));
            }
            // It tells the columns' names.
            _ => {}
        }
    }
    outcomes
}
