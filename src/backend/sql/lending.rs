//! How the user's pool lends a connection for one request.

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

/// The task that continues to acquire a connection after its request has given up.
#[derive(Clone, Default)]
pub(crate) struct Lingers(Arc<Mutex<Option<AbortHandle>>>);

/// Cancels the acquisition of a connection that no request waits for, unless it is the only one.
///
/// Connecting may take longer than a request waits, and a pool whose future is dropped starts over.
/// One task therefore continues, so that the pool has a connection for a later request.
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

/// Waits for a connection for three quarters of the request's time, and leaves the rest to the
/// server. An error means that nothing was sent. `refused` classifies an error of the pool, and
/// `put_back` returns a connection that arrives too late.
pub(crate) async fn lend<C, E>(
    lingers: &Lingers,
    patience: Duration,
    acquiring: impl Future<Output = Result<C, E>> + Send + 'static,
    refused: impl FnOnce(&E) -> StoreError,
    put_back: impl FnOnce(C) + Send + 'static,
) -> Result<C>
where
    C: Send + 'static,
    E: Send + 'static,
{
    let waits = patience.mul_f64(0.75);
    let (reply, acquired) = oneshot::channel();
    let task = spawn_abortable(async move {
        if let Err(Ok(connection)) = reply.send(acquiring.await) {
            put_back(connection);
        }
    });
    let _acquiring = Acquiring { task, lingers: lingers.clone() };
    match timeout(waits, acquired).await {
        Ok(Ok(Ok(connection))) => Ok(connection),
        Ok(Ok(Err(error))) => Err(refused(&error)),
        Ok(Err(_)) => {
            Err(StoreError::Unavailable("the pool lent no connection, because it panicked".into()))
        }
        Err(_) => {
            let why = "all of its connections are in use, or it cannot connect";
            let words = format!("the pool lent no connection within {waits:?}: {why}");
            Err(StoreError::Exhausted(words.into()))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::runtime::clock::sleep;

    #[tokio::test(start_paused = true)]
    async fn late_connection_is_put_back() {
        const PATIENCE: Duration = Duration::from_secs(4);
        let (lingers, (put_back, returned)) = (Lingers::default(), oneshot::channel());
        let acquiring = async {
            sleep(PATIENCE).await;
            Ok::<_, ()>("a connection")
        };
        let refused = |(): &()| StoreError::Unavailable("refused".into());
        let give = |connection| put_back.send(connection).expect("the pool is open");
        let lent = lend(&lingers, PATIENCE, acquiring, refused, give).await;
        assert!(matches!(lent, Err(StoreError::Exhausted(_))), "{lent:?}");
        assert_eq!(returned.await, Ok("a connection"));
    }
}
