//! How a pool of the user's own lends a connection for one request.

use std::{sync::Arc, time::Duration};

use tokio::sync::oneshot;

use crate::{
    backend::{Result, StoreError},
    runtime::{
        clock::timeout,
        executor::{AbortHandle, spawn_abortable},
        mutex::Mutex,
    },
};

/// The task that goes on with acquiring a connection for a request that has given up.
#[derive(Clone, Default)]
pub(crate) struct Lingers(Arc<Mutex<Option<AbortHandle>>>);

/// Ends the acquiring of a connection that no request waits for, unless it is the only one.
///
/// To connect may take longer than a request waits, and a pool that is dropped on the way begins
/// again. So one task goes on, and the pool has a connection for one of the next requests.
struct Acquiring {
    task: AbortHandle,
    lingers: Lingers,
}

impl Drop for Acquiring {
    fn drop(&mut self) {
        let mut lingers = self.lingers.0.lock();
        match &*lingers {
            Some(other) if !other.is_finished() => self.task.abort(),
            _ => *lingers = Some(self.task.clone()),
        }
    }
}

/// Waits for a connection for three quarters of the time that the request has, so that the server
/// has the rest. Nothing was sent if this fails. `refused` sorts an error of the pool.
pub(crate) async fn lend<C, E>(
    lingers: &Lingers,
    patience: Duration,
    acquiring: impl Future<Output = Result<C, E>> + Send + 'static,
    refused: impl FnOnce(&E) -> StoreError,
) -> Result<C>
where
    C: Send + 'static,
    E: Send + 'static,
{
    let waits = patience.mul_f64(0.75);
    let (reply, acquired) = oneshot::channel();
    let task = spawn_abortable(async move {
        // A connection that is not waited for any longer goes back to the pool.
        drop(reply.send(acquiring.await));
    });
    let _acquiring = Acquiring { task, lingers: lingers.clone() };
    match timeout(waits, acquired).await {
        Ok(Ok(Ok(connection))) => Ok(connection),
        Ok(Ok(Err(error))) => Err(refused(&error)),
        Ok(Err(_)) => Err(StoreError::Unavailable(
            "the pool lent no connection: the pool has panicked".into(),
        )),
        Err(_) => {
            let why = "all are in use, or it cannot connect";
            let words = format!("the pool lent no connection within {waits:?}: {why}");
            Err(StoreError::Exhausted(words.into()))
        }
    }
}
