//! Reads the replies to a session's requests, from any connection.

use std::borrow::Cow;

use super::{
    alone::{Batch, Came},
    error::triage,
    join::{Joining, joined_at},
    known_queues::KnownQueues,
    leave,
    message::Message,
    places::is_alone,
    sent::Sent,
};
use crate::{
    backend::{
        StoreError,
        sql::{
            asking::{Request, Verdict},
            outcome::Outcome,
            step::Step,
        },
    },
    lost::LostReason,
};

pub(super) struct Replies {
    pub(super) session: i64,
    pub(super) known: KnownQueues,
}

impl Replies {
    /// Returns the message that sends this request by itself.
    pub(super) fn message_of<'r>(&self, request: &'r Request<Message>) -> Cow<'r, Message> {
        match self.known.crowded(&request.message) {
            Some(step) => Cow::Owned(Joining::of_one(self.session, step).message(true)),
            None => Cow::Borrowed(&request.message),
        }
    }

    /// Answers a request that was sent by itself. The request is returned for a repetition if a
    /// user's transaction has locked its row.
    pub(super) fn answer(
        &mut self,
        endpoint: &str,
        request: Request<Message>,
        sent: Sent,
    ) -> Option<Request<Message>> {
        let answer = match sent.refused {
            Some((refused, doubt)) => Err(triage(request.operation, endpoint, &refused, doubt)),
            None if sent.is_gone => Err(gone()),
            None => match self.read(&request, sent.outcomes) {
                Some(outcomes) => Ok(outcomes),
                None => return Some(request),
            },
        };
        request.answer(answer);
        None
    }

    /// Reads the outcomes of a request. `None`: it changed nothing, because another transaction has
    /// locked its row.
    fn read(&mut self, request: &Request<Message>, outcomes: Vec<Outcome>) -> Option<Vec<Outcome>> {
        match &request.message.step {
            None => Some(outcomes),
            Some(Step::Leave { number, .. }) => leave::read(*number, &outcomes),
            Some(Step::Join { dir, if_free, .. }) => {
                let joined = outcomes.len().checked_sub(joined_at(*if_free))?;
                let members = outcomes[joined].rows();
                let number = members.first().and_then(|row| row.number(0)?.try_into().ok());
                let is_taken = *if_free
                    && outcomes.last().and_then(Outcome::first).is_some_and(|row| row.flag(2));
                let is_alone = number.is_some_and(is_alone);
                // A try that has joined has found the queue empty, and counts itself.
                let is_crowded = members.len() > 1 || members.is_empty() && is_taken;
                self.known.joined(dir, is_alone, is_crowded);
                (!members.is_empty() || is_taken).then_some(outcomes)
            }
        }
    }

    /// Reads the results of a batch. `selects`: see [`Batch::selecting`].
    pub(super) fn came(&self, requests: &[Request<Message>], selects: bool, sent: &Sent) -> Came {
        let steps = requests.iter().filter_map(|request| request.message.step.as_ref());
        let batch = Batch::of(self.session, steps).selecting(selects);
        batch.read(&sent.outcomes, sent.refused.is_some())
    }

    /// Answers requests that were sent together. Those that were not applied are returned, to be
    /// sent by themselves.
    pub(super) fn answer_all(
        &self,
        endpoint: &str,
        requests: Vec<Request<Message>>,
        mut came: Came,
        sent: &Sent,
    ) -> Vec<Request<Message>> {
        let mut left = Vec::new();
        for request in requests {
            let done = request.message.step.as_ref().and_then(|step| came.take(step));
            match (done, &sent.refused) {
                (Some(outcomes), _) => {
                    self.known.done_at_once(&request.message);
                    request.answer(Ok(outcomes));
                }
                (None, Some((refused, doubt))) => {
                    let verdict = triage(request.operation, endpoint, refused, *doubt);
                    match verdict {
                        // The session's row may be gone: send each by itself to find out.
                        Verdict::Again(_) => left.push(request),
                        verdict => request.answer(Err(verdict)),
                    }
                }
                (None, None) => left.push(request),
            }
        }
        left
    }
}

fn gone() -> Verdict {
    Verdict::Failed(StoreError::SessionGone(LostReason::SessionExpired))
}
