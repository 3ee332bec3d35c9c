//! What the nodes promise together.

use crate::backend::durability::{AfterLoss, Durability};

/// Of so many nodes, with which this is wrong.
pub(super) fn of(nodes: usize, troubles: Vec<String>) -> Durability {
    let majority = nodes / 2 + 1;
    let mut reasons = vec![format!(
        "as long as fewer than {majority} of the {nodes} nodes are emptied (FLUSHALL) or have \
         their clocks set unseen within one TTL"
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
        assert!(told.reasons[0].contains("fewer than 3 of the 5"), "{told:?}");
        assert_eq!(told.reasons[1], "h:1 is down");
    }
}
