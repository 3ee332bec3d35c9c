//! One of the grants of a lock that a client's contenders share.

use std::{sync::Arc, time::Duration};

use super::{Handover, Others};
use crate::{
    backend::name::Queue,
    error::{BoxError, Error, Result},
    lost::LostReason,
    queue::Hold,
    runtime::{carried::Carried, clock::timeout},
    session::{Session, own_keys::OwnKey},
    telemetry::{Account, Ended},
};

/// The part of a token that tells the grants of one entry apart.
const GRANT_BITS: u32 = u16::BITS;

/// How long to wait for the store's word whether others wait. Meanwhile nobody has the lock;
/// letting go is right in any case.
const PATIENCE: Duration = Duration::from_millis(250);

/// What all grants of one entry in the store's queue have in common.
#[derive(Debug)]
pub(crate) struct Tenure {
    session: Arc<Session>,
    own_key: Arc<OwnKey>,
    queue: Queue,
    /// In which this client has it.
    pub(super) term: u64,
    /// The token of grant number zero.
    first_token: u64,
}

impl Tenure {
    /// # Errors
    ///
    /// If the store counts too far for a token.
    pub(super) fn new(hold: &Hold, term: u64) -> Result<Self> {
        let session = Arc::clone(hold.attempt.session());
        // A lock that is held has one.
        let own_key = hold.attempt.own_key().map(Arc::clone).ok_or(Error::Closed)?;
        let first_token = first_token(own_key.entry.token).map_err(|source| Error::Backend {
            backend: session.shared.backend.name(),
            operation: "a grant with local hand-over",
            source: source.into(),
        })?;
        Ok(Self { session, own_key, queue: hold.attempt.queue().clone(), term, first_token })
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    pub(crate) fn own_key(&self) -> &OwnKey {
        &self.own_key
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    pub(super) fn name(&self) -> &str {
        self.queue.name()
    }

    /// Whether the lock is held at this instant. Once false, it stays false.
    pub(super) fn is_valid(&self) -> bool {
        self.own_key.lost_reason().is_none() && !self.session.deadline.remaining().is_zero()
    }

    /// Returns when the lock is lost (true) or released (false).
    pub(super) async fn lost_before_it_ended(&self) -> bool {
        tokio::select! {
            biased;
            _ = self.session.deadline.lost() => true,
            _ = self.own_key.lost() => true,
            () = self.own_key.left() => false,
        }
    }
}

/// All grants of one entry have its create revision, and the next revision may be another client's
/// entry: there are no numbers between them. So there are made some.
fn first_token(revision: u64) -> Result<u64, BoxError> {
    if revision >> (u64::BITS - GRANT_BITS) != 0 {
        // ZooKeeper: the epoch, which counts elections, is in the upper half.
        return Err(format!(
            "revision {revision:#x} needs more than 48 bits: connect without local_handover"
        )
        .into());
    }
    Ok(revision << GRANT_BITS)
}

/// The right to the lock, until it is dropped: then the next one gets it.
#[derive(Debug)]
pub(crate) struct Share {
    handover: Arc<Handover>,
    tenure: Arc<Tenure>,
    number: u16,
    /// Of this grant, for those who listen.
    pub(crate) account: Account,
    armed: bool,
}

/// What comes of the attempt to pass a lock on.
pub(crate) enum Passing {
    /// Somebody has it.
    Passed,
    /// It is to be released.
    LetGo(Hold),
    /// It was lost, and the one that noticed it has let it go.
    Over,
    /// It was passed on often enough, unless nobody else waits: ask the store.
    Undecided,
}

impl Passing {
    /// Tells what became of a grant. If it is to be released, that is told by the release.
    fn told(mut self, account: Account, tenure: &Tenure) -> Self {
        match &mut self {
            Self::LetGo(hold) => hold.attempt.account = account,
            Self::Passed => account.ended(Ended::Released),
            Self::Over | Self::Undecided => {
                let reason = tenure.own_key.lost_reason();
                let reason = reason.or_else(|| tenure.session.deadline.lost_reason());
                account.ended(Ended::Lost(reason.unwrap_or(LostReason::DeadlinePassed)));
            }
        }
        self
    }
}

impl Share {
    pub(super) fn new(handover: Arc<Handover>, tenure: Arc<Tenure>, number: u16) -> Self {
        Self { handover, tenure, number, account: Account::default(), armed: true }
    }

    pub(crate) fn tenure(&self) -> &Tenure {
        &self.tenure
    }

    pub(crate) fn token(&self) -> u64 {
        self.tenure.first_token | u64::from(self.number)
    }

    pub(super) fn disarm(mut self) {
        self.armed = false;
    }

    /// Gives the lock to the next one, or to the caller what it is to release. Done all the same if
    /// this future is dropped once it was polled.
    pub(crate) async fn pass_on(&mut self) -> Passing {
        self.armed = false;
        let (passing, account) = self.pass();
        if !matches!(passing, Passing::Undecided) {
            return passing.told(account, &self.tenure);
        }
        let runtime = &self.handover.runtime;
        let asking = ask(Arc::clone(&self.handover), Arc::clone(&self.tenure), account);
        runtime.within(Carried::whole(runtime, asking)).await
    }

    fn pass(&mut self) -> (Passing, Account) {
        let account = std::mem::take(&mut self.account);
        account.let_go();
        (self.handover.pass(&self.tenure, Others::Unknown), account)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        let (passing, account) = self.pass();
        if matches!(passing, Passing::Undecided) {
            let asking = ask(Arc::clone(&self.handover), Arc::clone(&self.tenure), account);
            self.handover.runtime.spawn(async move { drop(asking.await) });
        } else {
            drop(passing.told(account, &self.tenure));
        }
    }
}

/// Passes the lock on if nobody else waits for it.
async fn ask(handover: Arc<Handover>, tenure: Arc<Tenure>, account: Account) -> Passing {
    let followed = timeout(PATIENCE, tenure.session.store().followed(&tenure.own_key.entry)).await;
    let others = if matches!(followed, Ok(Ok(false))) { Others::Absent } else { Others::Wait };
    handover.pass(&tenure, others).told(account, &tenure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_room_for_the_grants_of_an_entry() {
        assert_eq!(first_token(1).unwrap(), 0x1_0000);
        assert_eq!(first_token(0xffff_ffff_ffff).unwrap(), 0xffff_ffff_ffff_0000);
        assert!(first_token(1).unwrap() | u64::from(u16::MAX) < first_token(2).unwrap());
    }

    /// A ZooKeeper ensemble after its 65,536th election.
    #[test]
    fn a_revision_that_does_not_fit_is_refused() {
        for revision in [0x1_0000_0000_0000, u64::MAX] {
            let error = first_token(revision).unwrap_err();
            assert!(error.to_string().contains("48 bits"), "{error}");
        }
    }
}
