//! The servers of a URL, of which one is writable.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::{
    backend::{Result, StoreError},
    runtime::clock::sleep,
};

/// Returns the error for a server that is not writable.
pub(crate) fn not_primary(endpoint: &str, what: &str) -> StoreError {
    let reason = format!(
        "{endpoint} {what}: locks need a server that accepts writes, such as the primary; check \
         the URL"
    );
    StoreError::Unavailable(reason.into())
}

#[derive(Debug)]
pub(crate) struct Endpoints {
    all: Vec<String>,
    /// The index of the endpoint to try first.
    first: AtomicUsize,
}

impl Endpoints {
    pub(crate) fn new(all: Vec<String>) -> Self {
        Self { all, first: AtomicUsize::new(0) }
    }

    /// Tries each endpoint once, beginning with the one that was last in use. The next attempt
    /// starts while a silent server may still reply, because that server may only be slow.
    pub(crate) async fn connect<'a, L, A>(
        &'a self,
        patience: Duration,
        connect_to: impl Fn(&'a str) -> A + Send,
    ) -> Result<L>
    where
        A: Future<Output = Result<L>> + Send,
    {
        let endpoints = &self.all;
        let count = endpoints.len();
        let share = patience / u32::try_from(count).unwrap_or(u32::MAX);
        let first = self.first.load(Ordering::Relaxed);
        let mut attempts = FuturesUnordered::new();
        let mut over = std::pin::pin!(sleep(patience));
        let (mut tried, mut failed) = (0, None::<StoreError>);
        loop {
            if tried < count {
                let place = (first + tried) % count;
                let attempt = connect_to(&endpoints[place]);
                attempts.push(async move { (place, attempt.await) });
                tried += 1;
            }
            tokio::select! {
                biased;
                Some((place, connected)) = attempts.next() => match connected {
                    Ok(link) => {
                        self.first.store(place, Ordering::Relaxed);
                        return Ok(link);
                    }
                    // A refusal is reported even if other servers never reply.
                    Err(error) if !matches!(failed, Some(StoreError::Denied(_))) => {
                        failed = Some(error);
                    }
                    Err(_) => {}
                },
                () = sleep(share), if tried < count => {}
                () = &mut over => {
                    let silent =
                        || format!("{}: no reply within {patience:?}", endpoints[first % count]);
                    return Err(failed.unwrap_or_else(|| {
                        StoreError::Unavailable(silent().into())
                    }));
                }
            }
            if let Some(error) = failed.take_if(|_| attempts.is_empty() && tried == count) {
                return Err(error);
            }
        }
    }

    /// Makes the next attempt begin with another server, because this one does not reply.
    pub(crate) fn leave(&self) {
        self.first.fetch_add(1, Ordering::Relaxed);
    }
}
