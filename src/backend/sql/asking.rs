//! How a call reaches the task that owns the connection, and how it is answered.
//!
//! Callers may drop what they wait for at any moment; the task never does.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use tokio::sync::oneshot;

use super::outcome::Outcome;
use crate::{
    backend::error::{Result, StoreError},
    runtime::{
        backoff,
        clock::{Instant, sleep, timeout},
    },
};

/// How often a transaction that the server undid for others' sake is asked for, if there is time.
const TIMES: u32 = 8;

/// What is to be done about an error.
#[derive(Debug)]
pub(crate) enum Verdict {
    #[cfg_attr(not(any(feature = "mysql", feature = "postgres")), allow(dead_code))]
    /// The server has undone the transaction for others' sake: ask again.
    Again(String),
    Failed(StoreError),
}

/// What a caller wants of the server, in one transaction.
#[derive(Debug)]
pub(crate) struct Request<M> {
    pub(crate) operation: &'static str,
    pub(crate) message: M,
    stage: Arc<Stage>,
    reply: oneshot::Sender<Result<Vec<Outcome>, Verdict>>,
}

/// Whether a request was sent: decided once, between the task and the caller whose time is up.
#[derive(Debug, Default)]
struct Stage(AtomicU8);

const WAITS: u8 = 0;
const SENT: u8 = 1;
const GIVEN_UP: u8 = 2;

impl Stage {
    /// Tells whether it is so now.
    fn become_(&self, stage: u8) -> bool {
        self.0.compare_exchange(WAITS, stage, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

impl<M> Request<M> {
    /// It is about to be sent. `false`: nobody waits for it any more.
    pub(crate) fn begin(&self) -> bool {
        !self.reply.is_closed() && self.stage.become_(SENT)
    }

    /// Its caller may have gone.
    pub(crate) fn answer(self, answer: Result<Vec<Outcome>, Verdict>) {
        let _ = self.reply.send(answer);
    }

    /// It was not sent.
    pub(crate) fn refuse(self, error: &Arc<StoreError>) {
        if self.stage.become_(GIVEN_UP) {
            self.answer(Err(Verdict::Failed(StoreError::again(error))));
        }
    }
}

/// Asks for one transaction, by way of the task.
pub(crate) async fn ask<M: Clone>(
    operation: &'static str,
    message: M,
    patience: Duration,
    send: impl Fn(Request<M>),
) -> Result<Vec<Outcome>> {
    let (mut tries, began) = (0, Instant::now());
    loop {
        match ask_once(operation, message.clone(), patience, &send).await {
            Ok(outcomes) => return Ok(outcomes),
            Err(Verdict::Failed(error)) => return Err(error),
            Err(Verdict::Again(told)) if tries + 1 == TIMES || began.elapsed() > patience => {
                return Err(StoreError::Unavailable(told.into()));
            }
            Err(Verdict::Again(_)) => sleep(backoff(tries) / 4).await,
        }
        tries += 1;
    }
}

async fn ask_once<M>(
    operation: &'static str,
    message: M,
    patience: Duration,
    send: impl Fn(Request<M>),
) -> Result<Vec<Outcome>, Verdict> {
    let (reply, answer) = oneshot::channel();
    let stage = Arc::<Stage>::default();
    // Should the task be gone, the reply is dropped, which is noticed below.
    send(Request { operation, message, stage: Arc::clone(&stage), reply });
    // What is sent is given its time by the task: this is for what is not.
    let answered = timeout(patience * 2, answer).await;
    let lost = "the connection was lost";
    Err(Verdict::Failed(match answered {
        Ok(Ok(answer)) => return answer,
        Ok(Err(_)) | Err(_) if stage.become_(GIVEN_UP) => {
            StoreError::Unavailable("there is no connection".into())
        }
        Ok(Err(_)) => StoreError::Unknown(lost.into()),
        Err(late) => StoreError::Unknown(late.into()),
    }))
}
