//! Requests that no caller waits for.

use std::{sync::atomic::Ordering, time::Duration};

use super::{
    error::{is_useless, triage},
    message::Message,
    pooled,
    requester::{Ended, Requester, What, session_of},
    statements,
    turns::Rank,
};
use crate::{
    backend::sql::{asking::Verdict, requested::Done, watched},
    runtime::clock::{Instant, sleep},
};

/// How soon sessions are queried again after an error that is likely to last, such as a full disk.
const LATER: Duration = Duration::from_millis(500);

impl Requester {
    pub(super) async fn expiries(&self, sessions: Vec<i64>) -> Done {
        let _turn = self.turn(true, Rank::Background).await;
        let pause = match self.send(&statements::expiries(&sessions), None, None).await {
            Ok(Ok(Some(outcomes))) => return Done::expiries(&outcomes, session_of),
            Ok(Ok(None)) => Duration::ZERO,
            Ok(Err(error)) => match triage("reading sessions", &self.endpoint, &error) {
                // A conflict has rolled it back.
                Verdict::Again(_) => Duration::ZERO,
                Verdict::Failed(_) => LATER,
            },
            Err(_) => return Done::Useless,
        };
        Done::Expiries(sessions.into_iter().map(|id| (id, pause)).collect())
    }

    pub(super) async fn poll(&self, asked: Vec<watched::What>) -> Ended {
        let _turn = self.turn(true, Rank::Background).await;
        match self.send(&pooled::watches(self.session), None, None).await {
            Ok(Ok(Some(outcomes))) => {
                let polled = Some(pooled::gone(asked, outcomes.last()));
                Ended { polled, ..Done::Answered.into() }
            }
            Ok(Err(error)) if is_useless(&error) => Done::Useless.into(),
            Ok(_) => Ended { polled: Some(Vec::new()), ..Done::Answered.into() },
            Err(_) => Done::Useless.into(),
        }
    }

    /// Tidies in steps, and after each one leaves the connection free for as long as that step
    /// took.
    pub(super) async fn tidy(&self, message: Message, pause: Duration) -> Ended {
        sleep(pause).await;
        let _turn = self.turn(true, message.rank()).await;
        let began = Instant::now();
        let sent = self.send(&message, None, None).await;
        if let Ok(Ok(Some(outcomes))) = &sent
            && outcomes.last().is_some_and(|more| more.rows().iter().any(|row| row.flag(0)))
        {
            let rest = vec![What::Tidy(message, began.elapsed())];
            return Ended { rest, ..Done::Answered.into() };
        }
        self.tidying.store(false, Ordering::Relaxed);
        match sent {
            Ok(Err(error)) if is_useless(&error) => Done::Useless.into(),
            Ok(_) => Done::Answered.into(),
            Err(_) => Done::Useless.into(),
        }
    }

    /// Runs a message and ignores its reply.
    pub(super) async fn have_done(&self, message: &Message) -> Ended {
        let _turn = self.turn(true, message.rank()).await;
        match self.send(message, None, None).await {
            Ok(Err(error)) if is_useless(&error) => Done::Useless.into(),
            Ok(_) => Done::Answered.into(),
            Err(_) => Done::Useless.into(),
        }
    }
}
