//! The rules of the lock's algorithm.

use crate::rule::rules;

rules! {
    FromSending "from-sending" "The deadline is measured from when the keepalive was sent.",
    EndsAtDeadline "ends-at-deadline" "A holder stops at its deadline.",
    ProvedGrant "proved-grant" "No grant after the deadline.",
    MissingReported "missing-reported" "A watch on a deleted key reports the deletion.",
    OwnKey "own-key" "The read that grants the lock also shows the waiter's own key.",
    First "first" "A predecessor's deletion grants the lock only if the predecessor was first.",
    Seen "seen" "A predecessor's deletion grants the lock only if its key was seen after joining.",
    NotBehind "not-behind" "No read is older than the session's last reply.",
    OneKey "one-key" "A repeated request to join creates no second key.",
    UntilConfirmed "until-confirmed" "A release is repeated until the store confirms it.",
    LookAgain "look-again" "After an unknown outcome, the client searches for a leftover key.",
}
