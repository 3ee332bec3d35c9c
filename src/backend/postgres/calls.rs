//! Calls that waited together, each on another queue.

use std::sync::Arc;

use super::{
    batch::{Batch, Came},
    error::{Failure, triage},
    lent::Lent,
    message::Message,
    requester::{Ended, Requester, What},
    turns::Rank,
};
use crate::{
    backend::{
        Result, StoreError,
        sql::{
            asking::{Request, Verdict},
            outcome::Outcome,
            requested::Done,
            step::Step,
        },
    },
    runtime::clock,
};

impl Requester {
    /// Sends the calls as a batch. Each call that the batch has not applied is sent again by
    /// itself, and only that reply counts. The same holds for all calls of a failed batch, because
    /// repeated joins and leaves have no further effect. The exception is a batch that went through
    /// the user's pool and whose outcome is unknown.
    pub(super) async fn calls(&self, mut requests: Vec<Request<Message>>) -> Ended {
        let lent = match self.lend(requests.iter().any(|call| call.message.goes_by_pool())).await {
            Ok(lent) => lent,
            Err(error) => {
                let error = Arc::new(error);
                requests.into_iter().for_each(|request| request.refuse(&error));
                return Done::Answered.into();
            }
        };
        let own = lent.is_none();
        let _turn = self.turn(own, Rank::Call).await;
        requests.retain(Request::begin);
        if requests.len() < 2 {
            return match requests.pop() {
                Some(request) => self.begun(request, lent, None).await,
                None => Done::Answered.into(),
            };
        }
        let calls: Vec<_> = requests.iter().filter_map(|request| request.message.step()).collect();
        let batch = Batch::of(&calls);
        let came = match self.send_batch(&batch, lent).await {
            Ok(Ok(came)) => Ok(came),
            Ok(Err(failure)) => match triage("changing queues", &self.endpoint, &failure) {
                // Another connection does not show whether it was applied.
                Verdict::Failed(error @ StoreError::Unknown(_)) if !own => Err(error),
                _ => Ok(batch.not_done()),
            },
            Err(error) => Err(error),
        };
        let came = match came {
            Ok(came) => came,
            Err(error) => {
                let error = Arc::new(error);
                for request in requests {
                    request.answer(Err(Verdict::Failed(StoreError::again(&error))));
                }
                return if own { Done::Useless.into() } else { Done::Answered.into() };
            }
        };
        let mut rest = Vec::new();
        for (request, came) in requests.into_iter().zip(came) {
            match came {
                Came::Done(rows) => {
                    let mut outcomes = request.message.outcomes(vec![Outcome::new(rows, 0)]);
                    // Skip the clock.
                    outcomes.drain(..1.min(outcomes.len()));
                    request.answer(Ok(outcomes));
                }
                Came::Checked => rest.extend(self.checked(request, None)),
                Came::Not => {
                    // The queue's row may be locked. The request for a crowded queue has a limit.
                    if let Some(Step::Join { dir, .. }) = request.message.step() {
                        self.crowded.note(dir, true);
                    }
                    rest.push(What::Alone(request));
                }
            }
        }
        Ended { rest, ..Done::Answered.into() }
    }

    async fn send_batch(
        &self,
        batch: &Batch<'_>,
        lent: Option<Lent>,
    ) -> Result<Result<Vec<Came>, Failure>> {
        let time = self.time(lent.as_ref());
        let query = async {
            let (clock, came) = match &self.batches {
                Some(batches) => batches.run(&self.client, self.session, batch).await?,
                None => {
                    let text = batch.text(self.session);
                    let outcomes = self.simple(&text, None, lent).await?;
                    batch.read(self.session, outcomes.last().map_or(&[], Outcome::rows))
                }
            };
            Ok((vec![clock], came))
        };
        let replied = self.replied(clock::now(), time, query).await?;
        Ok(replied.map(|(_, came)| came))
    }
}
