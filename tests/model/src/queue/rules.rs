//! What the lock's algorithm obeys.

use crate::rule::rules;

rules! {
    FromSending "from-sending" "The deadline counts from when the keepalive was sent.",
    EndsAtDeadline "ends-at-deadline" "One that holds stops at its deadline.",
    ProvedGrant "proved-grant" "No grant after the deadline.",
    MissingTold "missing-told" "A watch on a key that is gone says so.",
    OwnKey "own-key" "The look that grants shows the own key.",
    First "first" "That the key ahead is gone grants only if nobody was ahead of it.",
    Seen "seen" "It grants only if it was seen there after joining.",
    NotBehind "not-behind" "No read is older than what the session was told.",
    OneKey "one-key" "A repeated request to join makes no second key.",
    UntilConfirmed "until-confirmed" "A release is repeated until the store confirms it.",
    LookAgain "look-again" "What an attempt in doubt may have left is looked for again.",
}
