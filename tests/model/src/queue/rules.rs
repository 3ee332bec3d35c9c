//! The rules of the lock's algorithm.

use crate::rule::rules;

rules! {
    FromSending "from-sending" "The deadline counts from when the keepalive was sent.",
    EndsAtDeadline "ends-at-deadline" "A holder stops at its deadline.",
    ProvedGrant "proved-grant" "No grant after the deadline.",
    MissingReported "missing-reported" "A watch on a deleted key reports the deletion.",
    OwnKey "own-key" "The read that grants shows the own key.",
    First "first" "The deletion of the key ahead grants only if no key was ahead of that.",
    Seen "seen" "It grants only if the key was seen after joining.",
    NotBehind "not-behind" "No read is older than the session's last reply.",
    OneKey "one-key" "A repeated request to join creates no second key.",
    UntilConfirmed "until-confirmed" "A release is repeated until the store confirms it.",
    LookAgain "look-again" "After an unknown outcome, the client searches for a leftover key.",
}
