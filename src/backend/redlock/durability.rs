//! What the nodes promise together.

use crate::backend::durability::{AfterLoss, Durability};

/// Of so many nodes, with which this is wrong.
pub(super) fn of(nodes: usize, troubles: Vec<String>) -> Durability {
    let majority = nodes / 2 + 1;
    // Two majorities may have no more than one node in common.
    let mut reasons = vec![format!(
        "as long as none of the nodes that have a lock is emptied (FLUSHALL) or has its clock set \
         unseen within one TTL; one that all {nodes} have outlives that on fewer than {majority}"
    )];
    reasons.extend(troubles);
    Durability { exclusive: true, after_loss: AfterLoss::GoesOn, reasons }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_majority_is_what_it_takes() {
        let told = of(5, vec!["h:1 is down".into()]);
        assert!(told.exclusive && told.after_loss == AfterLoss::GoesOn);
        assert!(told.reasons[0].contains("all 5 have outlives that on fewer than 3"), "{told:?}");
        assert_eq!(told.reasons[1], "h:1 is down");
    }
}
